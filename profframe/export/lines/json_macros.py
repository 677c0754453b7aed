"""Macros that write the members of an event as JSON text."""

from __future__ import annotations

from typing import Final

from profframe.readers.chrome.job import ID_BITS, ID_MARK

MACROS: Final = r"""
    -- A text of a name or an id; what was a number is one again.
    CREATE OR REPLACE TEMP MACRO ident(t) AS
        CASE WHEN regexp_full_match(t, '0|-?[1-9][0-9]{0,17}') THEN t ELSE to_json(t) END;
    -- An id that is known beyond a process: of several traces the place of its own is in it.
    CREATE OR REPLACE TEMP MACRO shared_id(t) AS CASE
        WHEN getvariable('place') IS NULL THEN ident(t)
        WHEN regexp_full_match(t, '0|[1-9][0-9]{0,12}')
            AND try_cast(t AS BIGINT) < 1::BIGINT << ID_BITS
        THEN ((getvariable('place')::BIGINT << ID_BITS) + try_cast(t AS BIGINT))::VARCHAR
        ELSE to_json(getvariable('place')::VARCHAR || 'ID_MARK' || t) END;
    -- The same as the text that is read again.
    CREATE OR REPLACE TEMP MACRO shared_text(t) AS CASE
        WHEN getvariable('place') IS NULL THEN t
        WHEN regexp_full_match(t, '0|[1-9][0-9]{0,12}')
            AND try_cast(t AS BIGINT) < 1::BIGINT << ID_BITS
        THEN ((getvariable('place')::BIGINT << ID_BITS) + try_cast(t AS BIGINT))::VARCHAR
        ELSE getvariable('place')::VARCHAR || 'ID_MARK' || t END;
    CREATE OR REPLACE TEMP MACRO microseconds(ns) AS (ns * 0.001::DECIMAL(4, 3))::VARCHAR;
    CREATE OR REPLACE TEMP MACRO json_text(t) AS
        CASE WHEN json_valid(t) THEN t ELSE to_json(t) END;
    CREATE OR REPLACE TEMP MACRO list_text(t) AS
        CASE WHEN t[1] = '[' AND json_valid(t) THEN t ELSE to_json(t) END;
    -- The id of an asynchronous operation: a local one is as the source wrote it.
    CREATE OR REPLACE TEMP MACRO is_local(id, args) AS CASE
        WHEN starts_with(id, 'local:') AND json_valid(args)
        THEN id = concat('local:', (args->>'$.scope') || ':') || (args->>'$.id2.local') END;
    CREATE OR REPLACE TEMP MACRO operation_text(id, args) AS
        CASE WHEN is_local(id, args) THEN id ELSE shared_text(id) END;
    CREATE OR REPLACE TEMP MACRO operation(id, args) AS CASE
        WHEN is_local(id, args)
        THEN concat(',"scope":' || (args->'$.scope')::VARCHAR, ',"id2":', (args->'$.id2')::VARCHAR)
        ELSE ',"id":' || shared_id(id) END;
    -- What all events have; a NULL of concat() is left out.
    CREATE OR REPLACE TEMP MACRO common(category, name, pid, tid) AS concat(
        ',"cat":' || to_json(category), ',"name":' || to_json(name),
        ',"pid":' || ident(pid), ',"tid":' || ident(tid));
    CREATE OR REPLACE TEMP MACRO at_time(ns, dur_ns) AS concat(
        ',"ts":' || microseconds(ns - coalesce(getvariable('base_ns'), 0)),
        ',"dur":' || microseconds(dur_ns));
    CREATE OR REPLACE TEMP MACRO with_args(args) AS concat(',"args":' || args, '}');
    -- More members for arguments; what is no object stays.
    CREATE OR REPLACE TEMP MACRO with_added(args, members) AS CASE
        WHEN args IS NULL OR regexp_full_match(args, '\s*\{\s*\}\s*')
        THEN concat('{', members, '}')
        WHEN trim(args, E' \t\r\n')[1] = '{' AND json_valid(args)
        THEN concat(trim(args, E' \t\r\n')[:-2], ',', members, '}')
        ELSE args END;""".replace("ID_BITS", str(ID_BITS)).replace("ID_MARK", ID_MARK)
