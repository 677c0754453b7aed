-- libraries: folders and modules in the paths of Python frames and of stacks, and which of them frames of a library are in.
-- One row per name of a folder or module, by name.
-- In a bare shell read from `sql/lib` first: frames.
-- needs: events
-- parameter into VARCHAR = none  a library, as in `python_lines`
-- name      VARCHAR  name of the folder or module
-- is_around BOOLEAN  whether a frame with it in its path is of the library
WITH frames AS (
    SELECT DISTINCT name FROM events WHERE kind = 'python'
    UNION
    SELECT DISTINCT unnest(string_split(stack, ';'))
    FROM (
        SELECT DISTINCT stack FROM events WHERE stack IS NOT NULL
        UNION
        SELECT DISTINCT python_stack FROM events WHERE python_stack IS NOT NULL
    )
),
paths AS (
    SELECT
        name, is_of_library(name, getvariable('into')) AS is_wanted,
        regexp_replace(replace(name, chr(92), '/'), '(\.py)?\(\d+\)(:.*)?$', '') AS path
    FROM frames
    WHERE has_line(name)
)
SELECT part.name, bool_or(is_wanted) AS is_around
FROM paths, unnest(string_split(path, '/')) AS part(name)
WHERE part.name <> ''
GROUP BY part.name
ORDER BY part.name
