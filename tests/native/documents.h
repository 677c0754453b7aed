/* Documents by chance, and what their rows are: the writer of a text knows them, and reads nothing.

   A piece is sound, or has one oddity whose reason README.md says, or is cut off, or is damaged anyhow. */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- chance ---- */

static uint64_t drawn(uint64_t *chance) {
    uint64_t mixed = *chance += UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ mixed >> 31;
}

static int64_t below(uint64_t *chance, int64_t limit) { return (int64_t)(drawn(chance) >> 1) % limit; }

static bool percent(uint64_t *chance, int64_t likely) { return below(chance, 100) < likely; }

#define COUNT(list) ((int64_t)(sizeof(list) / sizeof *(list)))
#define ONE_OF(chance, list) (list)[below(chance, COUNT(list))]

/* ---- lists that grow ---- */

typedef struct {
    uint8_t *bytes;
    int64_t size, room;
} list;

static void put(list *to, const void *bytes, int64_t size) {
    if (to->size + size > to->room) {
        to->room = 2 * (to->size + size);
        if (!(to->bytes = realloc(to->bytes, (size_t)to->room))) abort();
    }
    if (size) memcpy(to->bytes + to->size, bytes, (size_t)size);
    to->size += size;
}

/* ---- what is known of a document ---- */

typedef struct {
    int64_t column, number, start, size; /* of a text in `known`; a number has a size of -1 */
} known_cell;

typedef struct {
    int64_t table, first, cells;
} known_row;

enum { SOUND, ODD, CUT, DAMAGED };

typedef struct {
    int64_t plan, first_row, rows; /* rows are known of sound ones */
    uint8_t reason;                /* of odd ones */
} known_piece;

typedef struct {
    uint64_t *chance;
    int64_t keys;
    const list *key_names;
    const uint8_t *key_kinds;
    int64_t spaces, escapes, wide; /* how likely, in percent */
    list text, bounds, known, cells, rows, pieces;
    list copy;         /* of the text, without white space */
    list plain;        /* the last string without its escapes */
    list args, others; /* of an event, without brackets */
    uint64_t taken[MOST_KEYS / 64]; /* keys that the event has */
    int64_t names;     /* members with names of their own */
} document;

static void say(document *d, const void *bytes, int64_t size) {
    put(&d->text, bytes, size);
    put(&d->copy, bytes, size);
}

static void say_all(document *d, const char *text) { say(d, text, (int64_t)strlen(text)); }

static void space(document *d) {
    while (percent(d->chance, d->spaces)) put(&d->text, &" \n\r\t"[below(d->chance, 4)], 1);
}

static void cell_of(document *d, int64_t column, int64_t number) {
    known_cell cell = {column, number, 0, -1};
    put(&d->cells, &cell, sizeof cell);
}

static void text_cell(document *d, int64_t column, const void *bytes, int64_t size) {
    known_cell cell = {column, 0, d->known.size, size};
    put(&d->known, bytes, size);
    put(&d->cells, &cell, sizeof cell);
}

/* ---- values ---- */

static void letter(document *d) {
    static const char *const wide[] = {"\xC2\x80", "\xC3\xA9", "\xDF\xBF", "\xE0\xA0\x80", "\xE6\x97\xA5", "\xED\x9F\xBF",
                                       "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"};
    static const char codes[] = "\"\\bfnrt", meanings[] = "\"\\\b\f\n\r\t", plain[] = "abcxyz0189 {}[]:,'/_\x7F";
    int64_t which = below(d->chance, 100);
    if (which < d->escapes) {
        int64_t code = below(d->chance, 7);
        say(d, "\\", 1);
        say(d, &codes[code], 1);
        put(&d->plain, &meanings[code], 1);
    } else {
        const char *one = which < d->escapes + d->wide ? ONE_OF(d->chance, wide) : &plain[below(d->chance, COUNT(plain) - 1)];
        int64_t size = one[0] & 0x80 ? (int64_t)strlen(one) : 1;
        say(d, one, size);
        put(&d->plain, one, size);
    }
}

/* A string; the scanner looks at 16 bytes at a time. */
static void string(document *d) {
    static const char *const words[] = {"aten::add", "cpu_op", "kernel", "float", "", "python_function", "a"};
    d->plain.size = 0;
    say(d, "\"", 1);
    if (percent(d->chance, 40)) {
        const char *word = ONE_OF(d->chance, words);
        say_all(d, word);
        put(&d->plain, word, (int64_t)strlen(word));
    } else {
        static const int64_t sizes[] = {0, 0, 0, 14, 14, 30};
        int64_t count = percent(d->chance, 1) ? below(d->chance, 2000) : ONE_OF(d->chance, sizes) + below(d->chance, 6);
        while (count--) letter(d);
    }
    say(d, "\"", 1);
}

/* An integer of at most so many digits. */
static int64_t integer(document *d, int64_t digits) {
    char text[24];
    int64_t most = 10;
    for (int64_t i = below(d->chance, digits); i > 0; i--) most *= 10;
    int64_t number = below(d->chance, most);
    if (number && percent(d->chance, 20)) number = -number;
    say(d, text, snprintf(text, sizeof text, "%lld", (long long)number));
    return number;
}

static void name(document *d) {
    char text[32];
    say(d, text, snprintf(text, sizeof text, "\"%s%lld\"", percent(d->chance, 10) ? "\xC3\xA9t\xC3\xA9 own member " : "own",
                          (long long)d->names++));
}

static void colon(document *d) {
    space(d);
    say(d, ":", 1);
    space(d);
}

static void comma(document *d) {
    space(d);
    say(d, ",", 1);
    space(d);
}

/* Brackets in brackets, as deep as can be read. */
static void nested(document *d) {
    int64_t depth = 1 + below(d->chance, 60);
    uint64_t objects = drawn(d->chance);
    for (int64_t i = 0; i < depth; i++) {
        say_all(d, objects >> i & 1 ? "{\"\"" : "[");
        if (objects >> i & 1) colon(d);
        else space(d);
    }
    say(d, "0", 1);
    while (depth--) {
        space(d);
        say_all(d, objects >> depth & 1 ? "}" : "]");
    }
}

/* Any value; a plain one has integers and strings alone. */
static void value(document *d, int64_t depth, bool is_plain) {
    static const char *const numbers[] = {"-0", "1.50", "1e999", "-1E-5", "0.1e+10", "9007199254740993", "0.0",
                                          "123456789012345678901234567890123456789012345678901234567890"};
    static const char *const words[] = {"true", "false", "null"};
    int64_t which = below(d->chance, depth ? 12 : 8);
    if (which < 3) string(d);
    else if (which < 5 || (is_plain && which == 5)) integer(d, 14);
    else if (which == 5) say_all(d, ONE_OF(d->chance, numbers));
    else if (which < 8) say_all(d, ONE_OF(d->chance, words));
    else {
        bool is_object = which > 9;
        int64_t count = below(d->chance, 4);
        say_all(d, is_object ? "{" : "[");
        space(d);
        for (int64_t i = 0; i < count; i++) {
            if (i) comma(d);
            if (is_object) {
                string(d);
                colon(d);
            }
            value(d, depth - 1, is_plain);
        }
        space(d);
        say_all(d, is_object ? "}" : "]");
    }
}

/* ---- members ---- */

/* A number of microseconds with up to six decimals; an event that is rounded has one cell that says so. */
static void time_member(document *d, int64_t column, bool *rounded) {
    char text[40];
    int64_t whole = below(d->chance, INT64_C(1) << below(d->chance, 52)), part = 0, decimals = below(d->chance, 7);
    if (whole > INT64_C(4000000000000000) || percent(d->chance, 2)) whole = INT64_C(4000000000000000);
    bool is_negative = percent(d->chance, 20);
    int size = snprintf(text, sizeof text, "%s%lld%s", is_negative ? "-" : "", (long long)whole, decimals ? "." : "");
    int64_t scale = 1000000;
    for (int64_t i = 0; i < decimals; i++) {
        static const char digits[] = "0055123456789";
        char digit = digits[below(d->chance, COUNT(digits) - 1)];
        text[size++] = digit;
        part += (digit - '0') * (scale /= 10);
    }
    say(d, text, size);
    int64_t up = is_negative ? (1000500 - part) / 1000 - 1000 : (part + 500) / 1000; /* halves go up */
    cell_of(d, column, (is_negative ? -1000 : 1000) * whole + up);
    if (part % 1000 && !*rounded) cell_of(d, ROUNDED, 1);
    *rounded |= part % 1000 != 0;
}

static void word_member(document *d, int64_t column) {
    int64_t begin = d->copy.size;
    if (percent(d->chance, 40)) {
        integer(d, 17);
        text_cell(d, column, d->copy.bytes + begin, d->copy.size - begin);
    } else {
        string(d);
        text_cell(d, column, d->plain.bytes, d->plain.size);
    }
}

static void id_member(document *d) {
    int64_t begin = d->copy.size, escapes = d->escapes;
    d->escapes = 0;
    if (percent(d->chance, 50)) {
        integer(d, 17);
        text_cell(d, ID, d->copy.bytes + begin, d->copy.size - begin);
    } else {
        string(d);
        text_cell(d, ID, d->plain.bytes, d->plain.size);
    }
    d->escapes = escapes;
}

/* The value of a member of the arguments that has a column. */
static void key_value(document *d, int64_t key, int64_t table) {
    int64_t begin = d->copy.size, column = FIXED + key;
    if (percent(d->chance, 10)) {
        say_all(d, "null");
        return;
    }
    switch (d->key_kinds[key]) {
    case KIND_INTEGER:
        if (percent(d->chance, 20)) {
            say(d, "\"", 1);
            cell_of(d, column, integer(d, 17));
            say(d, "\"", 1);
        } else if (table != MEMORY && percent(d->chance, 20)) { /* no integer, and no damage */
            say_all(d, percent(d->chance, 50) ? "\"default\"" : "[1,2]");
        } else cell_of(d, column, integer(d, 17));
        break;
    case KIND_FLAG: {
        bool is_true = percent(d->chance, 50);
        say_all(d, is_true ? "true" : "false");
        cell_of(d, column, is_true);
        break;
    }
    case KIND_DECIMAL:
        integer(d, 15);
        if (percent(d->chance, 60)) {
            say(d, ".", 1);
            for (int64_t i = below(d->chance, 20); i >= 0; i--) say(d, &"0123456789"[below(d->chance, 10)], 1);
        }
        text_cell(d, column, d->copy.bytes + begin, d->copy.size - begin);
        break;
    default:
        if (percent(d->chance, 60)) {
            string(d);
            text_cell(d, column, d->plain.bytes, d->plain.size);
        } else {
            say(d, "[", 1);
            space(d);
            value(d, 2, true);
            space(d);
            say(d, "]", 1);
            text_cell(d, column, d->copy.bytes + begin, d->copy.size - begin);
        }
    }
}

/* A member that goes to the arguments; `to` has them without white space. */
static void argument_member(document *d, int64_t table, list *to) {
    int64_t begin = d->copy.size, key = d->keys && percent(d->chance, 60) ? below(d->chance, d->keys) : -1;
    bool has_column = key >= 0 && d->key_kinds[key] != KIND_ODD && !(d->taken[key / 64] >> key % 64 & 1);
    if (has_column) {
        d->taken[key / 64] |= UINT64_C(1) << key % 64;
        say(d, "\"", 1);
        say(d, d->key_names[key].bytes, d->key_names[key].size);
        say(d, "\"", 1);
    } else name(d);
    colon(d);
    if (has_column) key_value(d, key, table);
    else if (percent(d->chance, 3)) nested(d);
    else value(d, 3, false);
    if (to->size) put(to, ",", 1);
    put(to, d->copy.bytes + begin, d->copy.size - begin);
}

static void args_member(document *d, int64_t table) {
    static const int64_t counts[] = {0, 1, 2, 3, 5, 8};
    int64_t count = percent(d->chance, 1) ? below(d->chance, 150) : ONE_OF(d->chance, counts);
    say(d, "{", 1);
    space(d);
    for (int64_t i = 0; i < count; i++) {
        if (i) comma(d);
        argument_member(d, table, &d->args);
    }
    space(d);
    say(d, "}", 1);
}

/* ---- events ---- */

/* What makes an event one of a table; ? is any word or none, * any word, and an empty text none. */
typedef struct {
    int64_t table;
    const char *phase, *name, *category;
} form;

static const form FORMS[] = {
    {EVENTS, "X", "?", "cpu_op"}, {EVENTS, "X", "?", "kernel"}, {EVENTS, "X", "?", ""}, {EVENTS, "X", "[memory]", "*"},
    {EVENTS, "B", "[memory]", "?"}, {EVENTS, "E", "?", "?"}, {EVENTS, "b", "thread_name", "profframe"},
    {EVENTS, "e", "?", "?"}, {EVENTS, "S", "?", "?"}, {EVENTS, "F", "?", "cpu_instant_event"},
    {MEMORY, "i", "[memory]", ""}, {MEMORY, "I", "[memory]", "cpu_instant_event"}, {MEMORY, "X", "[memory]", ""},
    {FLOWS, "s", "?", "ac2g"}, {FLOWS, "t", "[memory]", "?"}, {FLOWS, "f", "?", "profframe"},
    {COUNTERS, "C", "[memory]", ""}, {COUNTERS, "C", "?", "?"},
    {THREADS, "M", "process_name", "?"}, {THREADS, "M", "process_labels", "?"}, {THREADS, "M", "process_sort_index", "?"},
    {THREADS, "M", "thread_name", "?"}, {THREADS, "M", "thread_sort_index", "?"},
    {INSTANTS, "X", "?", "profframe"}, {INSTANTS, "X", "[memory]", "profframe"}, {INSTANTS, "i", "?", "?"},
    {INSTANTS, "i", "[memory]", "*"}, {INSTANTS, "M", "thread_names", "?"}, {INSTANTS, "M", "[memory]", ""},
    {INSTANTS, "", "[memory]", "?"}, {INSTANTS, "XX", "?", "?"}, {INSTANTS, "N", "?", "?"}, {INSTANTS, "x", "?", "?"},
};

static const char *const MEMBERS[FIXED] = {"ph", "cat", "name", "pid", "tid", "s", "bp", "ts", "dur", NULL, "id", "args"};

/* A word of the form of an event, after its name. */
static void form_member(document *d, int64_t column, const char *word) {
    if (!*word) say_all(d, "null");
    else if (strchr("?*", *word)) word_member(d, column);
    else {
        say(d, "\"", 1);
        say_all(d, word);
        say(d, "\"", 1);
        text_cell(d, column, word, (int64_t)strlen(word));
    }
}

static void member(document *d, int64_t column, const form *kind, bool *rounded) {
    say(d, "\"", 1);
    say_all(d, MEMBERS[column]);
    say(d, "\"", 1);
    colon(d);
    if (column == PHASE) form_member(d, column, kind->phase);
    else if (column == NAME) form_member(d, column, kind->name);
    else if (column == CATEGORY) form_member(d, column, kind->category);
    else if (percent(d->chance, 5)) say_all(d, "null");
    else if (column < WORDS) word_member(d, column);
    else if (column == ID) id_member(d);
    else time_member(d, column, rounded);
}

static void event_of(document *d, const form *kind) {
    int64_t order[FIXED + 100], count = 0, first = d->cells.size;
    bool rounded = false, has_args = false;
    for (int64_t column = 0; column < FIXED; column++) {
        const char *word = column == PHASE ? kind->phase : column == NAME ? kind->name : column == CATEGORY ? kind->category : "?";
        bool is_likely = percent(d->chance, column == SCOPE || column == BINDING_POINT || column == ID ? 20 : 70);
        if (MEMBERS[column] && (!*word ? percent(d->chance, 20) : *word != '?' || is_likely)) order[count++] = column;
    }
    int64_t others = percent(d->chance, 1) ? below(d->chance, 100) : percent(d->chance, 15) ? 1 + below(d->chance, 3) : 0;
    if (!count && !others) others = 1;
    while (others-- > 0) order[count++] = FIXED;
    for (int64_t i = count - 1; i > 0 && percent(d->chance, 95); i--) {
        int64_t other = below(d->chance, i + 1), was = order[i];
        order[i] = order[other], order[other] = was;
    }
    memset(d->taken, 0, sizeof d->taken);
    d->args.size = d->others.size = 0;
    say(d, "{", 1);
    space(d);
    for (int64_t i = 0; i < count; i++) {
        if (i) comma(d);
        if (order[i] == FIXED) argument_member(d, kind->table, &d->others);
        else if (order[i] == ARGS) {
            say_all(d, "\"args\"");
            colon(d);
            has_args = percent(d->chance, 97);
            if (has_args) args_member(d, kind->table);
            else say_all(d, "null");
        } else member(d, order[i], kind, &rounded);
    }
    space(d);
    say(d, "}", 1);
    if (has_args || d->others.size) {
        known_cell cell = {ARGS, 0, d->known.size, 0};
        put(&d->known, "{", 1);
        put(&d->known, d->args.bytes, d->args.size);
        if (d->args.size && d->others.size) put(&d->known, ",", 1);
        put(&d->known, d->others.bytes, d->others.size);
        put(&d->known, "}", 1);
        cell.size = d->known.size - cell.start;
        put(&d->cells, &cell, sizeof cell);
    }
    known_row row = {kind->table, first / (int64_t)sizeof(known_cell), (d->cells.size - first) / (int64_t)sizeof(known_cell)};
    put(&d->rows, &row, sizeof row);
}

/* ---- oddities ---- */

/* A member of an event and why it is handed back; @ stands for a key of a kind. */
typedef struct {
    const char *text;
    uint8_t reason;
    int kind;
} oddity;

#define DEEP_10 "[[[[[[[[[["
static const oddity ODDITIES[] = {
    {"\"id2\":1", ODD_MEMBER, -1}, {"\"scope\":\"a\"", ODD_MEMBER, -1}, {"\"bind_id\":1", ODD_MEMBER, -1},
    {"\"flow_in\":true", ODD_MEMBER, -1}, {"\"flow_out\":true", ODD_MEMBER, -1}, {"\"\":1", ODD_MEMBER, -1},
    {"\"args\":{\"\":1}", ODD_MEMBER, -1}, {"\"args\":{\"@\":1}", ODD_MEMBER, KIND_ODD},
    {"\"odd\":\"\\u00e9\"", ODD_ESCAPE, -1}, {"\"odd\":[\"a\\/b\"]", ODD_ESCAPE, -1}, {"\"odd\":\"\\", ODD_ESCAPE, -1},
    {"\"o\\n\":1", ODD_ESCAPE, -1}, {"\"args\":{\"o\\t\":1}", ODD_ESCAPE, -1}, {"\"id\":\"a\\n\"", ODD_ESCAPE, -1},
    {"\"odd\":01", ODD_TEXT, -1}, {"\"odd\":1.", ODD_TEXT, -1}, {"\"odd\":.5", ODD_TEXT, -1}, {"\"odd\":+1", ODD_TEXT, -1},
    {"\"odd\":-", ODD_TEXT, -1}, {"\"odd\":1e", ODD_TEXT, -1}, {"\"odd\":NaN", ODD_TEXT, -1}, {"\"odd\":tru", ODD_TEXT, -1},
    {"\"odd\":'a'", ODD_TEXT, -1}, {"\"odd\" 1", ODD_TEXT, -1}, {"\"odd\":", ODD_TEXT, -1}, {"odd:1", ODD_TEXT, -1},
    {"\"odd\":[1,]", ODD_TEXT, -1}, {"\"odd\":{\"a\":1,}", ODD_TEXT, -1}, {"\"odd\":{1:2}", ODD_TEXT, -1},
    {"\"odd\":[1 2]", ODD_TEXT, -1}, {"\"odd\":{\"a\" 1}", ODD_TEXT, -1}, {"\"odd\":[}", ODD_TEXT, -1},
    {"\"odd\":{\"a\":1]", ODD_TEXT, -1}, {"\"odd\":\"a\nb\"", ODD_TEXT, -1}, {"\"odd\":\"\x01\"", ODD_TEXT, -1},
    {"\"odd\":\"open, to the end of the piece", ODD_TEXT, -1}, {"\"odd\":\xC3\xA9", ODD_TEXT, -1},
    {"\"odd\":\"\xFF\"", ODD_TEXT, -1}, {"\"odd\":\"\x80\"", ODD_TEXT, -1}, {"\"odd\":\"\xC1\xBF\"", ODD_TEXT, -1},
    {"\"odd\":\"caf\xE9\"", ODD_TEXT, -1}, {"\"odd\":\"\xE0\x9F\xBF\"", ODD_TEXT, -1}, {"\"odd\":\"\xED\xA0\x80\"", ODD_TEXT, -1},
    {"\"odd\":\"\xF0\x8F\xBF\xBF\"", ODD_TEXT, -1}, {"\"odd\":\"\xF4\x90\x80\x80\"", ODD_TEXT, -1},
    {"\"odd\":\"0123456789abcde\xE6\x97\"", ODD_TEXT, -1}, {"\"args\":{\"odd\xC3\":1}", ODD_TEXT, -1},
    {"\"odd\":" DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 "[", ODD_DEPTH, -1},
    {"\"ts\":1e3", ODD_NUMBER, -1}, {"\"ts\":1.1234567", ODD_NUMBER, -1}, {"\"dur\":4000000000000001", ODD_NUMBER, -1},
    {"\"dur\":18446744073709551617", ODD_NUMBER, -1}, {"\"ts\":\"12\"", ODD_VALUE, -1}, {"\"dur\":true", ODD_VALUE, -1},
    {"\"args\":1", ODD_VALUE, -1}, {"\"args\":[]", ODD_VALUE, -1}, {"\"args\":\"a\"", ODD_VALUE, -1},
    {"\"name\":{}", ODD_VALUE, -1}, {"\"id\":[1]", ODD_VALUE, -1}, {"\"pid\":false", ODD_VALUE, -1},
    {"\"name\":\"a\",\"name\":\"a\"", ODD_DOUBLED, -1}, {"\"args\":{},\"args\":{}", ODD_DOUBLED, -1},
    {"\"odd\":1,\"odd\":2", ODD_DOUBLED, -1}, {"\"args\":{\"odd\":1,\"odd\":2}", ODD_DOUBLED, -1},
    {"\"args\":{\"odd\":1},\"odd\":2", ODD_DOUBLED, -1}, {"\"args\":{\"@\":1},\"@\":2", ODD_DOUBLED, KIND_INTEGER},
    {"\"args\":{\"@\":\"a\",\"@\":null}", ODD_DOUBLED, KIND_WORD},
    {"\"args\":{\"@\":1.5}", ODD_NUMBER, KIND_INTEGER}, {"\"@\":1234567890123456789", ODD_NUMBER, KIND_INTEGER},
    {"\"@\":\"0x1F\"", ODD_NUMBER, KIND_INTEGER}, {"\"@\":true", ODD_VALUE, KIND_INTEGER}, {"\"@\":\"5\\n\"", ODD_VALUE, KIND_INTEGER},
    {"\"@\":1", ODD_VALUE, KIND_FLAG}, {"\"@\":\"true\"", ODD_VALUE, KIND_FLAG},
    {"\"@\":\"1\"", ODD_VALUE, KIND_DECIMAL}, {"\"@\":1e3", ODD_NUMBER, KIND_DECIMAL},
    {"\"@\":0.1234567890123456789012345678901234567890", ODD_NUMBER, KIND_DECIMAL},
    {"\"@\":1.5", ODD_NUMBER, KIND_WORD}, {"\"@\":-0", ODD_NUMBER, KIND_WORD}, {"\"@\":[1234567890123456]", ODD_NUMBER, KIND_WORD},
};

/* What stands in the place of an event, or after all of them. */
static const struct {
    const char *event, *end;
    uint8_t reason;
} ODD_EVENTS[] = {
    {"{}", "]", ODD_MEMBER}, {"{ }", "]", ODD_MEMBER}, {"[]", "]", ODD_TEXT}, {"1", "]", ODD_TEXT}, {"null", "]", ODD_TEXT},
    {"", "]", ODD_TEXT}, {"{\"ph\":\"X\"}", "", ODD_TEXT}, {"{\"ph\":\"X\"}", "]]", ODD_TEXT}, {"{\"ph\":\"X\"}", "] ", ODD_TEXT},
    {"{\"ph\":\"X\"", "]", ODD_TEXT}, {"{\"ph\":\"X\",}", "]", ODD_TEXT}, {"{,\"ph\":\"X\"}", "]", ODD_TEXT},
    {"{\"ph\":\"X\"},", "]", ODD_TEXT}, {"{\"ph\":\"X\"}", "}", ODD_TEXT},
};

/* An event with more members than there is room for. */
static uint8_t long_event(document *d) {
    say_all(d, "{\"tid\":7");
    for (int64_t i = 257 + below(d->chance, 1000); i > 0; i--) {
        say(d, ",", 1);
        name(d);
        say_all(d, ":1");
    }
    say(d, "}", 1);
    return ODD_ROOM;
}

/* An event with an oddity; the reason. */
static uint8_t odd_event(document *d) {
    if (percent(d->chance, 1)) return long_event(d);
    const oddity *one;
    int64_t key;
    do {
        one = &ONE_OF(d->chance, ODDITIES);
        for (key = one->kind < 0 ? -1 : 0; key >= 0 && key < d->keys && d->key_kinds[key] != one->kind;) key++;
    } while (key == d->keys);
    bool is_first = percent(d->chance, 50);
    say_all(d, is_first ? "{" : "{\"tid\":7,");
    for (const char *p = one->text; *p; p++) {
        if (*p == '@') say(d, d->key_names[key].bytes, d->key_names[key].size);
        else say(d, p, 1);
    }
    say_all(d, is_first ? ",\"tid\":7}" : "}");
    return one->reason;
}

/* Damage anywhere in the text from some place on. */
static void damage(document *d, int64_t begin) {
    static const char *const parts[] = {"\"", "\\", "{", "}", "[", "]", ",", ":", "NaN", "-", "1e999", "0", "\\u00e9", "\xFF", "\xE6\x97",
                                        "\x01", " ", "\"ph\":\"X\",", "\"args\":{", "{\"ts\":1},", "99999999999999999999999999",
                                        DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10 DEEP_10, "\"0123456789abcdef\"", "null"};
    list whole = {0};
    for (int64_t times = 1 + below(d->chance, 3); times > 0; times--) {
        int64_t size = d->text.size - begin, at = below(d->chance, size + 1), gone = percent(d->chance, 50) ? below(d->chance, 4) : 0;
        if (percent(d->chance, 10)) gone = below(d->chance, size + 1);
        if (gone > size - at) gone = size - at;
        whole.size = 0;
        put(&whole, d->text.bytes + begin, size);
        d->text.size = begin + at;
        if (percent(d->chance, 20)) {
            uint8_t any = (uint8_t)drawn(d->chance);
            put(&d->text, &any, 1);
        } else if (percent(d->chance, 20) && size) {
            int64_t from = below(d->chance, size); /* something once more */
            put(&d->text, whole.bytes + from, 1 + below(d->chance, size - from));
        } else if (percent(d->chance, 90)) {
            const char *part = ONE_OF(d->chance, parts);
            put(&d->text, part, (int64_t)strlen(part));
        }
        put(&d->text, whole.bytes + at + gone, size - at - gone);
    }
    free(whole.bytes);
}

/* ---- documents ---- */

static void piece_of(document *d) {
    static const int64_t plans[] = {SOUND, SOUND, SOUND, SOUND, SOUND, SOUND, ODD, ODD, CUT, DAMAGED}, counts[] = {0, 1, 1, 2, 3, 5};
    known_piece own = {ONE_OF(d->chance, plans), d->rows.size / (int64_t)sizeof(known_row), 0, 0};
    int64_t begin = d->text.size, count = percent(d->chance, 1) ? below(d->chance, percent(d->chance, 5) ? 1000 : 60) : ONE_OF(d->chance, counts);
    bool is_odd_event = percent(d->chance, 20);
    int64_t odd_at = own.plan != ODD ? -1 : is_odd_event ? count : below(d->chance, count + 1);
    const char *end = "]";
    say(d, "[", 1);
    space(d);
    for (int64_t i = 0; i < count + (own.plan == ODD); i++) {
        if (i) comma(d);
        if (i == odd_at && is_odd_event) {
            int64_t which = below(d->chance, COUNT(ODD_EVENTS));
            say_all(d, ODD_EVENTS[which].event);
            end = ODD_EVENTS[which].end, own.reason = ODD_EVENTS[which].reason;
            if (!*ODD_EVENTS[which].event && !i) say(d, ",", 1); /* an array without events is none */
        } else if (i == odd_at) own.reason = odd_event(d);
        else event_of(d, &ONE_OF(d->chance, FORMS));
    }
    if (own.plan != ODD) space(d);
    say_all(d, end);
    own.rows = d->rows.size / (int64_t)sizeof(known_row) - own.first_row;
    if (own.plan == CUT) d->text.size = begin + below(d->chance, d->text.size - begin);
    if (own.plan == DAMAGED) damage(d, begin);
    put(&d->pieces, &own, sizeof own);
    put(&d->bounds, &d->text.size, sizeof d->text.size);
}

/* Write another document into what has the keys. */
static void write_document(document *d) {
    static const int64_t spaces[] = {0, 0, 10, 40}, escapes[] = {0, 0, 5, 30}, wide[] = {0, 0, 2, 30};
    list *const lists[] = {&d->text, &d->bounds, &d->known, &d->cells, &d->rows, &d->pieces, &d->copy};
    for (int64_t i = 0; i < COUNT(lists); i++) lists[i]->size = 0;
    d->spaces = ONE_OF(d->chance, spaces), d->escapes = ONE_OF(d->chance, escapes), d->wide = ONE_OF(d->chance, wide);
    put(&d->bounds, &d->text.size, sizeof d->text.size);
    for (int64_t pieces = below(d->chance, 6); pieces > 0; pieces--) piece_of(d);
}

static void free_document(document *d) {
    list *const lists[] = {&d->text, &d->bounds, &d->known, &d->cells, &d->rows, &d->pieces, &d->copy, &d->plain, &d->args, &d->others};
    for (int64_t i = 0; i < COUNT(lists); i++) free(lists[i]->bytes);
}
