-- frameworks: what ran, as far as its Python frames, annotations and ops say.
-- One row per framework, servers and trainers first.
-- A frame counts where its file lies in a folder that only this package has, not by the name of one folder alone.
-- SGLang runs parts of vLLM, and some of its releases write vLLM's annotations: then it is SGLang alone.
-- needs: events
-- framework VARCHAR  name of the framework
WITH names AS (
    SELECT DISTINCT kind, replace(name, chr(92), '/') AS name
    FROM events
    WHERE kind IN ('python', 'annotation', 'host_op') AND name IS NOT NULL
),
frames AS (
    SELECT name
    FROM names
    WHERE kind = 'python'
),
marks AS (
    SELECT name
    FROM names
    WHERE kind <> 'python'
),
of_frames AS (
    SELECT
        [
            CASE WHEN bool_or(regexp_matches(name, '(^|/)vllm/(v1|worker|engine|executor|model_executor|entrypoints)/'))
                THEN 'vLLM' END,
            CASE WHEN bool_or(regexp_matches(name, '(^|/)sglang/srt/')) THEN 'SGLang' END,
            CASE WHEN bool_or(regexp_matches(name, '(^|/)tensorrt_llm/(_torch|runtime|executor)/')) THEN 'TensorRT-LLM' END,
            CASE WHEN bool_or(regexp_matches(name, '(^|/)torchtitan/(train\.py|models/|distributed/|components/)'))
                THEN 'torchtitan' END,
            CASE WHEN bool_or(regexp_matches(name, '(^|/)megatron/(core|training|legacy)/')) THEN 'Megatron' END,
            CASE WHEN bool_or(regexp_matches(name, '(^|/)deepspeed/(runtime|inference|ops)/')) THEN 'DeepSpeed' END,
            CASE WHEN bool_or(regexp_matches(name, '(^|/)(lightning|pytorch_lightning)/(pytorch/|fabric/|trainer/|loops/)'))
                THEN 'Lightning' END,
            CASE WHEN bool_or(regexp_matches(name, '(^|/)transformers/(trainer\.py|models/|modeling_\w+\.py|generation/)'))
                THEN 'Transformers' END,
            CASE WHEN bool_or(regexp_matches(name, '(^|/)accelerate/(accelerator|data_loader|optimizer)\.py'))
                THEN 'Accelerate' END,
            CASE WHEN bool_or(contains(name, 'torch/nn/parallel/distributed.py')) THEN 'DDP' END,
            CASE WHEN bool_or(contains(name, 'torch/distributed/fsdp/')) THEN 'FSDP' END,
            CASE WHEN bool_or(contains(name, 'torch/_dynamo/eval_frame.py')) THEN 'torch.compile' END
        ] AS frameworks
    FROM frames
),
of_marks AS (
    SELECT
        [
            CASE WHEN bool_or(regexp_matches(name, '^execute_(\d+_)?context_\d+')) THEN 'vLLM' END,
            CASE WHEN bool_or(regexp_matches(name, '^step\[(EXTEND|PREFILL|DECODE|MIXED|IDLE|TARGET_VERIFY|DRAFT_EXTEND)\b'))
                THEN 'SGLang' END,
            CASE WHEN bool_or(starts_with(name, '[Executor] _forward_step ')) THEN 'TensorRT-LLM' END,
            CASE WHEN bool_or(regexp_matches(name, '^\[pl\]\[')) THEN 'Lightning' END,
            CASE WHEN bool_or(starts_with(name, 'DistributedDataParallel.forward')) THEN 'DDP' END,
            CASE WHEN bool_or(starts_with(name, 'FSDP::') OR starts_with(name, 'FullyShardedDataParallel.')) THEN 'FSDP' END,
            CASE WHEN bool_or(starts_with(name, 'Torch-Compiled Region') OR starts_with(name, 'TorchDynamo Cache Lookup'))
                THEN 'torch.compile' END
        ] AS frameworks
    FROM marks
),
places AS (
    SELECT
        ['vLLM', 'SGLang', 'TensorRT-LLM', 'torchtitan', 'Megatron', 'DeepSpeed', 'Lightning', 'Transformers', 'Accelerate', 'DDP',
         'FSDP', 'torch.compile'] AS names
),
present AS (
    SELECT unnest(frameworks) AS framework FROM of_frames
    UNION
    SELECT unnest(frameworks) FROM of_marks
)
SELECT framework
FROM present, places
WHERE
    framework IS NOT NULL
    AND (framework <> 'vLLM' OR 'SGLang' NOT IN (SELECT framework FROM present WHERE framework IS NOT NULL))
ORDER BY list_position(names, framework)
