from __future__ import annotations

import json

import pytest

from profframe import schema
from profframe.readers.json.repair import DROPS, Repaired, read_document, repair


def mended(element: str, **found: int) -> str:
    """The element as it comes out, from between two sound ones; what was found is as given."""
    fixed = repair('{"n": 1}, ' + element + ', {"n": 2}]')
    first, *middle, last = fixed.elements
    assert (first, last) == ('{"n": 1}', '{"n": 2}')
    assert (fixed.closed, fixed.incomplete) == (True, False)
    assert dict(fixed.repairs) == found
    assert found.keys() <= schema.CHECKS.keys()
    assert len(middle) <= 1
    return middle[0] if middle else ""


@pytest.mark.parametrize(
    "element",
    [
        "{}",
        '{ "name" : "x" ,\n "args":{"k":[1, 2.50, -1e-3, true, null]} }',
        r'{"name": "C:\\Users \"x\" \/ \b\f\n\r\t \u0041 \ud83d\ude80"}',
        '{"name": "}, {", "x": "]"}',
        '{"name": "\u00fc\u2028\U0001f680"}',
        '{"name": "\x7f"}',
    ],
)
def test_a_sound_element_is_passed_on_as_it_is(element: str) -> None:
    assert mended(element) == element


@pytest.mark.parametrize("word", ["N/A", "n/a", "undefined", "None", "True", "1.5e", "0xZZ", "--1"])
def test_a_bare_word_becomes_null(word: str) -> None:
    assert mended(f'{{"bandwidth": {word}, "x": 1}}', bare_word=1) == '{"bandwidth":null,"x":1}'


@pytest.mark.parametrize(
    "word", ["NaN", "nan", "-nan", "-nan(ind)", "Infinity", "-Infinity", "inf", "+inf", "INF"]
)
def test_a_number_that_is_not_finite_becomes_null(word: str) -> None:
    assert mended(f'{{"args": {{"x": {word}}}}}', non_finite_number=1) == '{"args":{"x":null}}'
    assert mended(f'{{"x": [1, {word}]}}', non_finite_number=1) == '{"x":[1,null]}'


@pytest.mark.parametrize(
    ("word", "decimal"),
    [
        ("0x0", "0"),
        ("0X1f", "31"),
        ("0xFFFFFFFFFFFFFFFF", "18446744073709551615"),
        ("0x" + "f" * 5000, f'"0x{"f" * 5000}"'),
    ],
)
def test_a_bare_hexadecimal_number_becomes_decimal(word: str, decimal: str) -> None:
    assert mended(f'{{"stream": {word}}}', hex_number=1) == f'{{"stream":{decimal}}}'


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("+1", "1"),
        ("007", "7"),
        ("-007.50", "-7.50"),
        ("5.", "5"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("1.e5", "1e5"),
        ("00", "0"),
    ],
)
def test_a_number_that_json_does_not_allow_is_written_as_one_that_it_does(
    word: str, number: str
) -> None:
    assert mended(f'{{"ts": {word}}}', odd_number=1) == f'{{"ts":{number}}}'


def test_raw_backslashes_are_taken_literally() -> None:
    element = r'{"name": "C:\Users\new\table.py(3): f", "ts": 1}'
    assert mended(element, raw_backslash=1) == (r'{"name":"C:\\Users\\new\\table.py(3): f","ts":1}')


@pytest.mark.parametrize("element", [r'{"dir": "C:\tmp\"}', r'{"dir": "C:\tmp\", "ts": 1}'])
def test_a_raw_backslash_before_the_closing_quote_does_not_hide_it(element: str) -> None:
    value = json.loads(mended(element.replace("tmp", "Users"), raw_backslash=1))
    assert value["dir"] == "C:\\Users\\"


@pytest.mark.parametrize(
    ("element", "name"),
    [
        ('{"name": "say "hi" now"}', 'say "hi" now'),
        ('{"name": "say "hi"", "ts": 1}', 'say "hi"'),
        ('{"name": ""hi" he said", "ts": 1}', '"hi" he said'),
        ('{"name": "a"b", "ts": 1}', 'a"b'),
        ('{"name": "f("x", "y")", "ts": 1}', 'f("x", "y")'),
        ('{"name": "f("x")", "args": {"k": "v"}}', 'f("x")'),
        (r'{"name": "both "raw" and \"sound\"", "ts": 1}', 'both "raw" and "sound"'),
    ],
)
def test_raw_quotes_inside_text_are_escaped(element: str, name: str) -> None:
    assert json.loads(mended(element, raw_quote=1))["name"] == name


EMBEDDED = (
    r'"{\"x\": \"y\"}"',
    r'"\"}}]"',
    r'"[{\"a\": [\"b\", {\"c\": \"}, {\\\"\"}]}, {\"d\": \"]}\"}]"',
    r'"a \"b\""',
    r'"\"a\", b\", \"c\": 1"',
    r'"C:\\ud800\\"',
    r'"\\"',
    r'"\u0022}, {\u0022"',
)


@pytest.mark.parametrize("text", EMBEDDED)
@pytest.mark.parametrize(
    ("broken", "fixed", "check"),
    [
        ("NaN", "null", "non_finite_number"),
        ("0x1F", "31", "hex_number"),
        ('"a\x01"', r'"a\u0001"', "control_byte"),
        (r'"C:\x"', r'"C:\\x"', "raw_backslash"),
        (r'"\ud800"', r'"\ufffd"', "lone_surrogate"),
        ("", "null", "missing_value"),
    ],
)
def test_text_that_is_sound_stays_as_it_is_beside_what_is_mended(
    text: str, broken: str, fixed: str, check: str
) -> None:
    for element in (
        '{"bad":%s,"cfg":%s,"list":[%s,1],"args":{"k":%s}}',
        '{"cfg":%s,"list":[%s,1],"args":{"k":%s},"bad":%s}',
    ):
        first = element.startswith('{"bad"')
        mend = (fixed, text, text, text) if first else (text, text, text, fixed)
        damaged = (broken, text, text, text) if first else (text, text, text, broken)
        assert mended(element % damaged, **{check: 1}) == element % mend
    inside = '{"args":{"cfg":%s,"bad":%s,"more":{"k":%s}}}'
    found = mended(inside % (text, broken, text), **{check: 1})
    assert found == inside % (text, fixed, text)


def test_text_that_needs_mending_keeps_its_escapes() -> None:
    element = '{"cfg":"{\\"x\\": \\"two\nlines\\", \\"y\\": [\\"}\\"]}","k":1}'
    assert mended(element, control_byte=1) == element.replace("\n", "\\u000a")


def test_escaped_quotes_are_no_raw_ones() -> None:
    element = r'{"a":"C:\Users says \"hi\", \"ho\"","b":1}'
    assert json.loads(mended(element, raw_backslash=1)) == {
        "a": r"C:\Users says \"hi\", \"ho\"",
        "b": 1,
    }


@pytest.mark.parametrize(
    "element",
    [
        '{"a":1,"a":2,"b":3}',
        '{"a":{"x":1},"b":3,"a":2}',
        r'{"\u0061":1,"b":3,"a":2}',
        r'{"a":1,"b":3,"\u0061":2}',
    ],
)
def test_of_doubled_members_the_last_counts(element: str) -> None:
    assert json.loads(mended(element, doubled_member=1)) == {"a": 2, "b": 3}


def test_members_that_differ_in_case_are_not_doubled() -> None:
    assert mended('{"a":1,"A":2}') == '{"a":1,"A":2}'
    assert mended('{"a":1,"A":2,"b":NaN}', non_finite_number=1) == '{"a":1,"A":2,"b":null}'


@pytest.mark.parametrize(
    ("element", "fixed"),
    [
        ('{"a": "x, "b": 1}', '{"a":"x","b":1}'),
        ('{"a": {"k": "x, "b": 1}}', '{"a":{"k":"x","b":1}}'),
        ('{"b": 1, "a": "x}', '{"b":1,"a":"x"}'),
        ('{"b": 1, "a": {"k": "x}}', '{"b":1,"a":{"k":"x"}}'),
    ],
)
def test_text_that_is_not_closed_ends_before_the_next_key(element: str, fixed: str) -> None:
    assert mended(element, missing_quote=1) == fixed


@pytest.mark.parametrize(
    ("element", "fixed", "check"),
    [
        ('{"a":"x" "b":1}', '{"a":"x","b":1}', "odd_comma"),
        ('{"a":"x",, "b":1}', '{"a":"x","b":1}', "odd_comma"),
        ('{"a":"x","b" 1}', '{"a":"x","b":1}', "missing_colon"),
        ('{"k":["x",,"y"]}', '{"k":["x","y"]}', "odd_comma"),
        ('{"a":["x"}', '{"a":["x"]}', "missing_bracket"),
    ],
)
def test_text_ends_where_it_says_also_before_what_is_broken(
    element: str, fixed: str, check: str
) -> None:
    assert mended(element, **{check: 1}) == fixed


def test_an_element_that_is_cut_in_a_list_does_not_swallow_those_behind_it() -> None:
    fixed = repair(",".join(f'{{"n":{i},"k":[1' for i in range(40)) + "]")
    assert fixed.elements[:20] == [f'{{"n":{i},"k":[1]}}' for i in range(20)]


def test_brackets_that_are_no_end_are_passed_over() -> None:
    fixed = repair('{"n":1}' + "]" * 1000 + ',{"n":2}]')
    assert (fixed.elements, fixed.repairs) == (['{"n":1}', '{"n":2}'], {"dropped_junk": 1000})


def test_an_error_does_not_count_the_lines_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    documents: list[str] = []
    error = json.JSONDecodeError.__init__

    def noted(self: json.JSONDecodeError, msg: str, doc: str, pos: int) -> None:
        documents.append(doc)
        error(self, msg, doc, pos)

    monkeypatch.setattr(json.JSONDecodeError, "__init__", noted)
    repair(",\n".join(['{"a": {"b": "x"y"}}'] * 50) + "]")
    assert len(documents) >= 50
    assert {(doc.count("\n", 0, len(doc)), doc.rfind("\n")) for doc in documents} == {(0, -1)}


def test_raw_quotes_inside_the_texts_of_a_list_are_escaped() -> None:
    element = '{"Concrete Inputs": ["", "a"b", "[1, 2]"]}'
    value = json.loads(mended(element, raw_quote=1))
    assert value == {"Concrete Inputs": ["", 'a"b', "[1, 2]"]}


def test_raw_control_bytes_are_escaped() -> None:
    element = '{"name": "a\nb\tc\x00d\x1b[0m", "ts": 1}'
    assert mended(element, control_byte=1) == (r'{"name":"a\u000ab\u0009c\u0000d\u001b[0m","ts":1}')


def test_bytes_that_are_no_utf8_become_the_replacement_character() -> None:
    element = b'{"name": "caf\xe9 \xff\xfe!"}'.decode("utf-8", "surrogateescape")
    assert mended(element, invalid_utf8=1) == '{"name":"caf\ufffd \ufffd!"}'


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    element = r'{"a": "\ud800", "b": "\udc00\ud800", "c": "\ud83d\ude80"}'
    assert json.loads(mended(element, lone_surrogate=2)) == {
        "a": "\ufffd",
        "b": "\ufffd\ufffd",
        "c": "\U0001f680",
    }


@pytest.mark.parametrize(
    ("element", "fixed"),
    [
        ('{"a": , "b": 2}', '{"a":null,"b":2}'),
        ('{"a":}', '{"a":null}'),
        ('{"a": {"b": }}', '{"a":{"b":null}}'),
    ],
)
def test_a_missing_value_becomes_null(element: str, fixed: str) -> None:
    assert mended(element, missing_value=1) == fixed


def test_several_repairs_of_one_element_are_each_counted() -> None:
    element = '{"a": 0x1, "b": NaN, "c": "x"y", "d": N/A, "e": , "f": "\x01", "g": 0x2}'
    found = {
        "hex_number": 2,
        "non_finite_number": 1,
        "raw_quote": 1,
        "bare_word": 1,
        "missing_value": 1,
        "control_byte": 1,
    }
    value = json.loads(mended(element, **found))
    assert value == {"a": 1, "b": None, "c": 'x"y', "d": None, "e": None, "f": "\x01", "g": 2}


@pytest.mark.parametrize("element", ["1", '"text"', "null", "[1, [2]]", "-1.5", "[]"])
def test_an_element_that_is_no_object_is_dropped(element: str) -> None:
    assert not mended(element, not_an_event=1)


def test_an_element_that_another_begins_in_ends_there() -> None:
    assert mended('{"a": {"x": 1}', missing_bracket=1) == '{"a":{"x": 1}}'
    assert {"not_an_event", "unreadable_event", "long_event", "second_array"} == set(DROPS)


def test_an_element_that_is_nested_too_deep_to_mend_is_left_to_the_parser() -> None:
    deep = '{"a": ' + "[" * 5000 + '"}", 1e5, null' + "]" * 5000 + "}"
    assert mended(deep) == deep


@pytest.mark.parametrize("broken", ["NaN", "0x1", '"\x01"', "'a'", '"\udc80"'])
def test_an_element_that_is_nested_too_deep_to_mend_and_broken_is_dropped(broken: str) -> None:
    assert not mended('{"a": ' + "[" * 5000 + broken + "]" * 5000 + "}", unreadable_event=1)


def test_junk_between_elements_is_dropped() -> None:
    fixed = repair('{"a": 1}}, {"b": 2}]')
    assert fixed.elements == ['{"a": 1}', '{"b": 2}']
    assert dict(fixed.repairs) == {"dropped_junk": 1}


def test_the_place_of_the_first_of_each_repair_is_known() -> None:
    fixed = repair('{"a": 1}, {"b": NaN}, {"c": 0x1}, {"d": NaN}]')
    assert fixed.repairs == {"non_finite_number": 2, "hex_number": 1}
    assert fixed.first == {"non_finite_number": 16, "hex_number": 28}


def test_reading_stops_behind_the_bracket_that_closes_the_array() -> None:
    text = ' {"a": 1} ,\n {"b": [2]} ] , "more": [{"c": 3}]}'
    fixed = repair(text)
    assert fixed.elements == ['{"a": 1}', '{"b": [2]}']
    assert (fixed.closed, text[fixed.end :]) == (True, ' , "more": [{"c": 3}]}')


@pytest.mark.parametrize("text", ["]", " ]", "\n]\n"])
def test_an_empty_array_has_no_elements(text: str) -> None:
    fixed = repair(text)
    assert (fixed.elements, fixed.closed, fixed.repairs) == ([], True, {})


WHOLE = '{"name": "a\\"b\\\\", "args": {"k": [1, "x"], "d": {"e": null}}, "ts": 1.5}'


@pytest.mark.parametrize("length", range(1, len(WHOLE)))
def test_an_element_that_the_text_does_not_hold_whole_is_left_for_more_text(length: int) -> None:
    fixed = repair('{"n": 1}, ' + WHOLE[:length])
    assert fixed == Repaired(['{"n": 1}'], 10, closed=False, incomplete=True)


@pytest.mark.parametrize("text", ["", " ", ",", '{"n": 1}', '{"n": 1}, '])
def test_text_that_ends_between_elements_is_used_up(text: str) -> None:
    fixed = repair(text)
    assert (fixed.end, fixed.closed, fixed.incomplete) == (len(text), False, False)


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ('{"a": [1, 2.5], "b": "x"}', {"a": [1, 2.5], "b": "x"}, {}),
        ("[]", [], {}),
        ('{"version": N/A, "dir": "C:\\Users"}', {"version": None, "dir": "C:\\Users"}, None),
        ('{"a": 1, "b": , "c": {}}', {"a": 1, "b": None, "c": {}}, {"missing_value": 1}),
        ('{"a": 1} x', {"a": 1}, {"trailing_text": 1}),
        ('{"a": [1', {}, {"unreadable_header": 1}),
        ("", {}, {"unreadable_header": 1}),
    ],
)
def test_a_document_is_read_whole(text: str, value: object, found: dict[str, int] | None) -> None:
    read, counted = read_document(text)
    assert read == value
    assert dict(counted) == ({"bare_word": 1, "raw_backslash": 1} if found is None else found)
