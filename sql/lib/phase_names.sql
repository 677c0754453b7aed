-- Numbers in the names of markers of inference phases.

-- phase_number: a number after a word and an equals sign in the name of a marker.
-- parameter name VARCHAR  name of the marker
-- parameter word VARCHAR  the word, or several as a regular expression
-- returns BIGINT  the number; NULL if there is none
-- example: SELECT phase_number('step[DECODE bs=32]', 'bs')
CREATE OR REPLACE TEMP MACRO phase_number(name, word) AS
try_cast(nullif(regexp_extract(name, '[ \[](?:' || word || ')=(\d{1,18})(?:\D|$)', 1), '') AS BIGINT);

-- phase_counts: requests and tokens in the name of a marker, in the forms of vLLM, TensorRT-LLM, SGLang, ATOM and xDiT. In a
-- decode of SGLang or TensorRT-LLM each request has one token, unless the name gives another number.
-- parameter name VARCHAR  name of the marker
-- parameter phase VARCHAR  its phase
-- returns STRUCT  `batch` (requests), `prefill_tokens`, `decode_tokens` and `tokens`; NULL if the name does not say
-- example: SELECT phase_counts('step[EXTEND bs=2 toks=30]', 'prefill')
CREATE OR REPLACE TEMP MACRO phase_counts(name, phase) AS (
    SELECT {
        'batch': coalesce(before + after, bs),
        'prefill_tokens': before_tokens,
        'decode_tokens': after_tokens,
        'tokens': coalesce(
            before_tokens + after_tokens,
            toks,
            CASE phase WHEN 'prefill' THEN before_tokens WHEN 'decode' THEN after_tokens END
        )
    }
    FROM (
        SELECT
            before, after, bs, toks,
            coalesce(
                before_sum,
                phase_number(name, 'c_sq|ext'),
                CASE WHEN phase = 'prefill' THEN toks WHEN phase = 'decode' THEN 0 END
            ) AS before_tokens,
            coalesce(
                after_sum,
                phase_number(name, 'g_sq|dec'),
                CASE WHEN phase = 'decode' THEN coalesce(toks, bs, after) WHEN phase = 'prefill' THEN 0 END
            ) AS after_tokens
        FROM (
            SELECT
                try_cast(nullif(said.context, '') AS BIGINT) AS before,
                try_cast(nullif(said.generation, '') AS BIGINT) AS after,
                try_cast(nullif(said.context_tokens, '') AS BIGINT) AS before_sum,
                try_cast(nullif(said.generation_tokens, '') AS BIGINT) AS after_sum,
                coalesce(
                    phase_number(name, 'bs'), try_cast(regexp_extract(name, '^execute_diffusion_(\d{1,18})_', 1) AS BIGINT)
                ) AS bs,
                phase_number(name, 'toks?') AS toks
            FROM (
                SELECT CASE
                    WHEN starts_with(name, 'execute_new_') THEN regexp_extract(
                        name, '_new_(\d+)_cached_(\d+)()()', ['context', 'generation', 'context_tokens', 'generation_tokens']
                    )
                    WHEN starts_with(name, '[Executor]') THEN regexp_extract(
                        name, ': (\d+) ctx reqs, (?:(\d+) ctx tokens, )?(\d+) gen reqs()',
                        ['context', 'context_tokens', 'generation', 'generation_tokens']
                    )
                    ELSE regexp_extract(
                        name, '_context_(\d+)(?:\((?:sq)?(\d+)[^)]*\))?_generation_(\d+)(?:\((?:sq)?(\d+)[^)]*\))?',
                        ['context', 'context_tokens', 'generation', 'generation_tokens']
                    )
                END AS said
            )
        )
    )
);
