"""More members for the arguments of an event, which are JSON text; what is no object stays."""

from __future__ import annotations

from typing import Final

MACROS: Final = r"""
    CREATE OR REPLACE TEMP MACRO with_added(args, members) AS CASE
        WHEN args IS NULL OR regexp_full_match(args, '\s*\{\s*\}\s*')
        THEN concat('{', members, '}')
        WHEN trim(args, E' \t\r\n')[1] = '{' AND json_valid(args)
        THEN concat(trim(args, E' \t\r\n')[:-2], ',', members, '}')
        ELSE args END;"""
