-- Python frames: which belong to the user's own code, and not to Python, PyTorch or other packages.

-- library_names: packages and modules that are not the user's own code, as part of a regular expression: Python's library, except
-- for names that scripts also have (`test`, `profile`, `trace`, `code`), and what is installed beside PyTorch. Profilers cut off
-- the package folder, so `torchvision/models/resnet.py` can only be recognised by its name.
-- returns VARCHAR  alternatives
-- example: SELECT library_names()
CREATE OR REPLACE TEMP MACRO library_names() AS
'__future__|_bootlocale|_collections_abc|_compression|_pydecimal|_strptime|_weakrefset|abc|argparse|ast|'
    || 'asyncio|base64|bdb|bisect|builtins|bz2|codecs|collections|concurrent|configparser|contextlib|contextvars|'
    || 'copy|copyreg|csv|ctypes|dataclasses|datetime|decimal|difflib|dis|email|encodings|enum|functools|gc|'
    || 'genericpath|getpass|glob|gzip|hashlib|heapq|hmac|html|http|imp|importlib|inspect|io|ipaddress|itertools|json|'
    || 'keyword|linecache|locale|logging|lzma|marshal|math|mimetypes|multiprocessing|ntpath|numbers|opcode|operator|'
    || 'optparse|os|pathlib|pickle|pickletools|pkgutil|platform|posixpath|pprint|queue|random|re|reprlib|runpy|sched|'
    || 'secrets|select|selectors|shelve|shlex|shutil|signal|site|socket|socketserver|sqlite3|sre_compile|sre_parse|'
    || 'ssl|stat|statistics|string|stringprep|struct|subprocess|sys|sysconfig|tarfile|tempfile|textwrap|threading|'
    || 'timeit|tokenize|traceback|types|typing|unittest|urllib|uuid|warnings|wave|weakref|xml|zipfile|zipimport|'
    || 'zoneinfo|'
    || 'absl|accelerate|aiohttp|aiter|albumentations|apex|attr|attrs|bitsandbytes|boto3|botocore|charset_normalizer|'
    || 'click|cloudpickle|cv2|dask|deepspeed|diffusers|dill|einops|fairscale|filelock|'
    || 'flash_attn|fsspec|functorch|google|grpc|h5py|huggingface_hub|hydra|ignite|ipykernel|IPython|jax|jaxlib|'
    || 'joblib|jupyter_client|kornia|lightning|lightning_fabric|lightning_utilities|matplotlib|mlflow|mpmath|msgspec|'
    || 'networkx|numba|numpy|nvtx|omegaconf|onnx|onnxruntime|optree|orjson|packaging|pandas|peft|PIL|pip|pluggy|'
    || 'polars|prometheus_client|psutil|pyarrow|pydantic|pydantic_core|pytest|pytorch_lightning|ray|regex|requests|'
    || 'rich|s3fs|safetensors|scipy|sentencepiece|setuptools|sgl_kernel|simplejson|six|skimage|sklearn|starlette|'
    || 'sympy|tensorboard|tensorboardX|tensordict|timm|tokenizers|torch_geometric|torch_guard|torch_npu|torch_xla|'
    || 'torchao|torchaudio|torchdata|torchgen|torchmetrics|torchtext|torchtune|torchvision|tornado|tqdm|traitlets|'
    || 'transformer_engine|transformers|triton|triton_kernels|typer|typing_extensions|urllib3|uvicorn|uvloop|wandb|'
    || 'webdataset|xformers|yaml|zmq';

-- has_line: whether a Python frame has a line, which module calls and built-in functions have not.
-- parameter name VARCHAR  name of the frame: `path/file.py(12): function`
-- returns BOOLEAN  whether it has
-- example: SELECT has_line('train.py(12): step')
CREATE OR REPLACE TEMP MACRO has_line(name) AS
regexp_matches(name, '\(\d+\)(?::|$)');

-- is_own_frame: whether a Python frame is the user's own code: not PyTorch, Python, a package, a module call (`nn.Module: ...`),
-- a built-in function, or code generated at run time. Notebook cells are the user's own.
-- parameter name VARCHAR  name of the frame: `path/file.py(12): function`
-- returns BOOLEAN  whether it is
-- example: SELECT is_own_frame('train.py(12): step')
CREATE OR REPLACE TEMP MACRO is_own_frame(name) AS
NOT regexp_matches(
    replace(name, chr(92), '/'),
    '^nn\.Module: |^<(?:[^is]|i[^p]|s[^t]|st[^d])|(?:^|/)(?:torch|triton|functorch|torchgen)/|/(?:site|dist)-packages/'
    || '|/lib/python[\d.]+/|^[A-Za-z]:.*/Lib/[^/]+\.py\(|/torchinductor_|^(?:\./)?(?:' || library_names() || ')(?:/|\.py\()'
)
AND has_line(name);

-- is_of_library: whether the path of a Python frame has a folder or module of that name.
-- parameter name VARCHAR  name of the frame: `path/file.py(12): function`
-- parameter library VARCHAR  the folder or module: torch, torch/utils/data, PIL
-- returns BOOLEAN  whether it has
-- example: SELECT is_of_library('torch/nn/functional.py(12): linear', 'torch/nn')
CREATE OR REPLACE TEMP MACRO is_of_library(name, library) AS
contains('/' || replace(name, chr(92), '/'), '/' || library || '/')
OR contains('/' || replace(name, chr(92), '/'), '/' || library || '.py(');

-- is_line: whether time is counted for a Python frame: one of the user's own code, or of a library that is wanted. Calls
-- without a line (`nn.Module: ...`, built-in functions) count for the frame that they are in.
-- parameter name VARCHAR  name of the frame: `path/file.py(12): function`
-- parameter library VARCHAR  none, all, or a folder or module in the paths of the library: torch, torch/utils/data, PIL
-- returns BOOLEAN  whether it is
-- example: SELECT is_line('torch/nn/functional.py(12): linear', 'torch')
CREATE OR REPLACE TEMP MACRO is_line(name, library) AS
-- Compiling the pattern of is_own_frame takes two milliseconds, each time that it is named.
is_own_frame(name) OR (library <> 'none' AND has_line(name) AND (library = 'all' OR is_of_library(name, library)));

-- is_wait: whether a Python frame is a function of Python's library that waits for another thread, process or connection. Torch
-- writes its files without a folder, other recorders with all of them.
-- parameter name VARCHAR  name of the frame: `path/file.py(12): function`
-- returns BOOLEAN  whether it is
-- example: SELECT is_wait('threading.py(355): wait')
CREATE OR REPLACE TEMP MACRO is_wait(name) AS
regexp_matches(
    replace(name, chr(92), '/'),
    '(?:^|/lib(?:64)?/python[\d.]+/|^[A-Za-z]:.*/Lib/)'
    || '(?:threading|queue|selectors|socket|ssl|subprocess|multiprocessing/\w+|concurrent/futures/\w+)\.py\(\d+\): '
    || '(?:_?wait|wait_for|_wait_for_tstate_lock|acquire|join|get|_?poll|select|_?recv\w*|accept|result|_worker)$'
);

-- line_of: the innermost frame of a stack that time is counted for.
-- parameter stack VARCHAR  frames joined by `;`, the innermost first
-- parameter library VARCHAR  as for is_line
-- returns VARCHAR  the frame; NULL if there is none
-- example: SELECT line_of('torch/nn/functional.py(12): linear;a.py(3): f', 'torch')
CREATE OR REPLACE TEMP MACRO line_of(stack, library) AS
list_filter(string_split(stack, ';'), lambda frame: is_line(frame, library))[1];

-- frame_of: the innermost frame of a stack that is the user's own code.
-- parameter stack VARCHAR  frames joined by `;`, the innermost first
-- returns VARCHAR  the frame; NULL if there is none
-- example: SELECT frame_of('<built-in f>;a.py(3): f')
CREATE OR REPLACE TEMP MACRO frame_of(stack) AS
list_filter(string_split(stack, ';'), lambda frame: is_own_frame(frame))[1];

-- captured_calls: one row per captured slice that launched work of graphs, with the stack of the call.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, kind, name, module_hierarchy  as in events
-- column stack VARCHAR  Python frames around the call, joined by `;`, innermost first; NULL if none is known
-- example: FROM captured_calls(events)
CREATE OR REPLACE TEMP MACRO captured_calls(events) AS TABLE
SELECT
    slice.run, slice.rank, slice.event_id, slice.kind, slice.name, slice.module_hierarchy,
    coalesce(of_work.stack, slice.python_stack) AS stack
FROM query_table(events) AS slice
LEFT JOIN (
    SELECT run, rank, op_id, any_value(python_stack) AS stack
    FROM query_table(events)
    WHERE attributed_by = 'graph_stack'
    GROUP BY run, rank, op_id
) AS of_work
    ON slice.run = of_work.run AND slice.rank = of_work.rank AND slice.event_id = of_work.op_id
WHERE slice.replays IS NOT NULL;
