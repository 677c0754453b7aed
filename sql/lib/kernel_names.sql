-- What kernels are called.

-- without_brackets: a name without <...> and (...), taken away from the inside, as deep as 60; a bracket without its partner
-- goes with all that follows it. An arrow is no bracket.
-- parameter name VARCHAR  name of a kernel
-- returns VARCHAR  the rest of the name
-- example: SELECT without_brackets('mm<float>(int)')
CREATE OR REPLACE TEMP MACRO without_brackets(name) AS regexp_replace(
    list_reduce(
        list_prepend(regexp_replace(name, '->|\[clone [^\]]*\]', '', 'g'), list_transform(range(60), lambda _: '')),
        lambda text, _: regexp_replace(text, '<[^<>()]*>|\([^<>()]*\)', '', 'g')
    ),
    '[<(].*| const *$',
    ''
);

-- short_name: of a kernel its function, without return type, template arguments, parameters and unnamed namespaces; of a copy
-- or fill all that is in no brackets. Where that leaves nothing, the name.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- returns VARCHAR  the short name
-- example: SELECT short_name('kernel', 'void mm<float>(int)')
CREATE OR REPLACE TEMP MACRO short_name(kind, name) AS coalesce(
    nullif(
        CASE
            WHEN kind = 'kernel'
            THEN ltrim(regexp_replace(regexp_extract(without_brackets(name), '(\S+)\s*$', 1), '::(::)+', '::', 'g'), ':')
            ELSE trim(without_brackets(name))
        END,
        ''
    ),
    name
);

-- fused_ops: what a kernel of Inductor fuses, as its name has it: the ops in alphabetical order, joined by `_`.
-- parameter name VARCHAR  name of a kernel
-- returns VARCHAR  the ops; NULL where the name says nothing
-- example: SELECT fused_ops('triton_poi_fused_add_gelu_7')
CREATE OR REPLACE TEMP MACRO fused_ops(name) AS
nullif(regexp_extract(name, '^triton_[a-z_]*?fused_([0-9]+$|(.*?)(_[0-9]+)?$)', 2), '');
