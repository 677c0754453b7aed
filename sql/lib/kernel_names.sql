-- Names of kernels.

-- without_brackets: a name without <...> and (...), removed from the inside, up to 60 deep; a bracket without its partner is
-- removed with everything after it. An arrow does not count as a bracket, nor what compares or shifts alone in round ones.
-- parameter name VARCHAR  name of a kernel
-- returns VARCHAR  the rest of the name
-- example: SELECT without_brackets('mm<float>(int)')
CREATE OR REPLACE TEMP MACRO without_brackets(name) AS regexp_replace(
    list_reduce(
        list_prepend(regexp_replace(name, '->|\[clone [^\]]*\]', '', 'g'), list_transform(range(60), lambda _: '')),
        lambda text, _: regexp_replace(text, '<[^<>()]*>|\([^<>()]*((<<|>>|[<>])=?[^<>()]*)?\)', '', 'g')
    ),
    '[<(].*| const *$',
    ''
);

-- mangled_words: the readable words of a linker's (mangled) name: the parts of a nested name, joined by `::`.
-- parameter name VARCHAR  name of a kernel, such as `_ZN5aiter4normE`
-- returns VARCHAR  the words; the name itself if it has none, or is cut within one
-- example: SELECT mangled_words('_ZN5aiter4normE')
CREATE OR REPLACE TEMP MACRO mangled_words(name) AS coalesce(
    nullif(
        regexp_replace(
            regexp_extract(
                list_reduce(
                    list_prepend('|' || regexp_replace(name, '^_ZN?L?', ''), list_transform(range(32), lambda _: '')),
                    -- What is read, a bar, what is left: the length of the next word, and the word.
                    lambda text, _: CASE
                        WHEN regexp_matches(text, '\|L?[0-9]{1,4}')
                        THEN regexp_extract(text, '^(.*)\|', 1) || '::'
                            || substr(
                                regexp_extract(text, '\|L?[0-9]{1,4}(.*)', 1),
                                1,
                                try_cast(regexp_extract(text, '\|L?([0-9]{1,4})', 1) AS INTEGER)
                            )
                            || CASE
                                WHEN length(regexp_extract(text, '\|L?[0-9]{1,4}(.*)', 1))
                                    >= try_cast(regexp_extract(text, '\|L?([0-9]{1,4})', 1) AS INTEGER)
                                THEN '|' || substr(
                                    regexp_extract(text, '\|L?[0-9]{1,4}(.*)', 1),
                                    try_cast(regexp_extract(text, '\|L?([0-9]{1,4})', 1) AS INTEGER) + 1
                                )
                                ELSE ''
                            END
                        ELSE text
                    END
                ),
                '^(.*)\|',
                1
            ),
            '^::|::_GLOBAL__N_[^:]*',
            '',
            'g'
        ),
        ''
    ),
    name
);

-- generated_name: a name without what follows the kernel's own name: Tensile's settings, CuTe's addresses; for Composable
-- Kernel's entry point which kernel it is, for a mangled name its words, for a function without arguments its name.
-- parameter name VARCHAR  name of a kernel, without brackets
-- returns VARCHAR  the short name
-- example: SELECT generated_name('Cijk_Alik_Bljk_BBS_BH_MT128x256x32_MI16x16x1_SN_LDSB1_AFC1')
CREATE OR REPLACE TEMP MACRO generated_name(name) AS CASE
    WHEN regexp_full_match(name, '\w*Cijk_\w+?_MT\d+x\d+x\d+(_MI\d+x\d+x\d+)?_\w+')
    THEN regexp_extract(name, '^(\w*Cijk_\w+?_MT\d+x\d+x\d+(_MI\d+x\d+x\d+)?)_', 1)
    WHEN regexp_full_match(name, '\w*kernel_cutlass_\w+?_object_at_\w*')
    THEN regexp_extract(name, '^(\w*kernel_cutlass_\w+?)_object_at_', 1)
    WHEN regexp_matches(name, '^_ZN7ck_tile6kentryI(L\w\d+E)*NS_\d')
    THEN 'ck_tile::kentry<'
        || substr(
            regexp_extract(name, '^_ZN7ck_tile6kentryI(?:L\w\d+E)*NS_\d{1,4}(.*)', 1),
            1,
            try_cast(regexp_extract(name, '^_ZN7ck_tile6kentryI(?:L\w\d+E)*NS_(\d{1,4})', 1) AS INTEGER)
        ) || '>'
    WHEN regexp_full_match(name, 'void +\S+') THEN regexp_extract(name, '^void +(\S+)', 1)
    WHEN regexp_matches(name, '^_ZN?L?\d') AND regexp_full_match(name, '[ -~]*') THEN mangled_words(name)
    ELSE name
END;

-- short_name: for a kernel its function, without return type, template arguments, parameters and unnamed namespaces; for a copy
-- or fill everything outside brackets; for an instruction of HLO the name of its result. If nothing is left, the name.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- returns VARCHAR  the short name
-- example: SELECT short_name('kernel', 'void mm<float>(int)')
CREATE OR REPLACE TEMP MACRO short_name(kind, name) AS coalesce(
    nullif(
        CASE
            WHEN kind = 'kernel' AND regexp_matches(name, '^%?[\w.-]+ = ') THEN regexp_extract(name, '^(%?[\w.-]+) = ', 1)
            WHEN kind = 'kernel' AND NOT regexp_matches(name, '[<(]') THEN generated_name(name)
            WHEN kind = 'kernel'
            THEN ltrim(regexp_replace(regexp_extract(without_brackets(name), '(\S+)\s*$', 1), '::(::)+', '::', 'g'), ':')
            ELSE trim(without_brackets(name))
        END,
        ''
    ),
    name
);

-- fused_ops: what an Inductor kernel fuses, from its name: the ops in alphabetical order, joined by `_`.
-- parameter name VARCHAR  name of a kernel
-- returns VARCHAR  the ops; NULL if the name says nothing
-- example: SELECT fused_ops('triton_poi_fused_add_gelu_7')
CREATE OR REPLACE TEMP MACRO fused_ops(name) AS
nullif(regexp_extract(name, '^triton_[a-z_]*?fused_([0-9]+$|(.*?)(_[0-9]+)?$)', 2), '');

-- product_dtype: the data type that a kernel of matrix products or a convolution computes in, by names of cuBLAS, cuDNN, CUTLASS,
-- Tensile and Composable Kernel; they are of such kernels, which is not tested. A type of 16 bits in the name is that of the
-- inputs, whatever the sums are in; s1688 without one is tf32. In fp4 (nvfp4, mxfp4) scales are in fp8, mostly ue4m3.
-- parameter name VARCHAR  name of a kernel
-- returns VARCHAR  the type; NULL if the name does not tell
-- example: SELECT product_dtype('ampere_bf16_s16816gemm_bf16_128x64_tn')
CREATE OR REPLACE TEMP MACRO product_dtype(name) AS CASE
    WHEN regexp_matches(name, '(?i)e2m1|nvfp4') AND NOT regexp_matches(name, '(?i)(^|[^u])e4m3|e5m2') THEN 'fp4'
    WHEN
        regexp_matches(name, '(?i)fp8|float8|e4m3|e5m2|nvjet_(sm\d+_)?qq')
        OR regexp_matches(name, 'Cijk_A[a-z]+_B[a-z]+_[FB]8')
        THEN 'fp8'
    WHEN regexp_matches(name, '(?i)bf16|bfloat|DF16b|nvjet_(sm\d+_)?tst') OR regexp_matches(name, 'Cijk_A[a-z]+_B[a-z]+_B')
        THEN 'bf16'
    WHEN
        regexp_matches(name, '(?i)fp?16|half|hgemm|h884|h1688|h16816|DF16_|nvjet_(sm\d+_)?hsh')
        OR regexp_matches(name, 'Cijk_A[a-z]+_B[a-z]+_H')
        THEN 'fp16'
    WHEN regexp_matches(name, '(?i)tf32|tensorop_s1688|s1688gemm') THEN 'tf32'
    WHEN regexp_matches(name, '(?i)fp?64|dgemm|double|d884') OR regexp_matches(name, 'Cijk_A[a-z]+_B[a-z]+_D') THEN 'fp64'
    WHEN regexp_matches(name, '(?i)int8|i8gemm|imma|s8_i?') OR regexp_matches(name, 'Cijk_A[a-z]+_B[a-z]+_I8') THEN 'int8'
    WHEN regexp_matches(name, '(?i)tensorop|s16816') THEN NULL
    WHEN
        regexp_matches(name, '(?i)(^|_)sgemm|_scudnn_|gemm_f32f32_f32f32_f32_')
        OR regexp_matches(name, 'Cijk_A[a-z]+_B[a-z]+_S')
        THEN 'fp32'
END;

-- product_precision: product_dtype, followed by `tensor` where the name shows units that are for matrices (tensor cores);
-- `tensor` alone where it shows only these.
-- parameter name VARCHAR  name of a kernel
-- returns VARCHAR  `fp32`, `tf32 tensor`, ...; NULL if the name does not tell
-- example: SELECT product_precision('ampere_bf16_s16816gemm_bf16_128x64_tn')
CREATE OR REPLACE TEMP MACRO product_precision(name) AS nullif(
    concat_ws(
        ' ',
        product_dtype(name),
        CASE
            WHEN
                regexp_matches(
                    name,
                    '(?i)tf32|tensorop|[whgiq]mma_|[hsdi](884|1688|16816|161616|16832)|tensor\d+x\d+|warpgroup|nvjet|mfma|xdl'
                )
                OR regexp_matches(name, 'Cijk_\w+_MI\d+x\d+')
                THEN 'tensor'
        END
    ),
    ''
);
