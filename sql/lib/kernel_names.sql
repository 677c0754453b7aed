-- What kernels are called.

-- without_brackets: a name without <...> and (...), taken away from the inside, as deep as 60; a bracket without its partner
-- goes with all that follows it. An arrow is no bracket.
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
