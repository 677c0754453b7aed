/* Scan pieces of the text of trace events into the columns of tables: README.md has the contract.

   A piece is scanned as a whole or handed back: whatever is not plain JSON of the expected kinds makes
   it odd, and another reader takes it. Nothing is allocated, and nothing is kept between two calls. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "scan.h"

#define DEEPEST 60        /* nested brackets of a value */
#define MOST_MEMBERS 256  /* of an event */
#define SEEN 1024         /* slots for the names of an event's members */

typedef const uint8_t *place; /* in the text; NULL where it is odd */

typedef struct {
    place start;
    int64_t size;
} span;

/* A member whose column is known, until the table of the event is. */
typedef struct {
    int32_t column;
    int64_t value;
} cell;

typedef struct {
    span phase, id, name_text, category;
    bool has_id, is_odd_memory, is_rounded;
    int32_t codes[WORDS];
    uint8_t has;   /* a bit for each of TIME and DURATION */
    uint32_t seen; /* a bit for each member */
    int64_t ns[2];
    int32_t cells;
    cell cell[MOST_KEYS];
    uint64_t keys[MOST_KEYS / 64]; /* those that were seen */
    bool has_args;
    uint8_t *args_begin, *args_end;
    int32_t others; /* members that belong to the arguments */
    span other[MOST_MEMBERS];
} event;

typedef struct {
    scan *scan;
    span key[MOST_KEYS];
    uint8_t first_key[256], next_key[MOST_KEYS]; /* by hash; 255 ends a list */
    int64_t rows[TABLES];
    int64_t used[TABLES][2]; /* bytes of ids, and of arguments */
    int32_t last[WORDS + MOST_KEYS]; /* entry of the last word of each column, or -1 */
    uint64_t seen[SEEN];
    uint32_t events;
    uint8_t high; /* bits of all bytes of strings, one byte for eight */
    uint8_t reason;
} state;

static place odd(state *s, uint8_t reason) {
    s->reason = reason;
    return NULL;
}

/* ---- letters ---- */

#if defined(__GNUC__) && !defined(PROFFRAME_PORTABLE)
typedef uint8_t block __attribute__((vector_size(16)));

/* The first byte of 16 that ends a run of plain letters, or 16; copies all 16. */
static inline int plain_letters(place p, uint8_t *out, uint8_t *high) {
    block letters;
    memcpy(&letters, p, 16);
    memcpy(out, &letters, 16);
    block ends = (block)((letters == '"') | (letters == '\\') | (letters < 0x20));
    uint64_t half[2], word[2];
    memcpy(half, &ends, 16);
    memcpy(word, &letters, 16);
    *high |= ((word[0] | word[1]) & UINT64_C(0x8080808080808080)) != 0;
    if (half[0]) return __builtin_ctzll(half[0]) >> 3;
    return half[1] ? 8 + (__builtin_ctzll(half[1]) >> 3) : 16;
}
#else
static inline int plain_letters(place p, uint8_t *out, uint8_t *high) {
    int i = 0;
    for (; i < 16 && p[i] != '"' && p[i] != '\\' && p[i] >= 0x20; i++) {
        out[i] = p[i];
        *high |= p[i] >> 7;
    }
    return i;
}
#endif

static inline place space_end(place p) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') p++;
    return p;
}

static inline bool is_digit(uint8_t letter) { return (uint8_t)(letter - '0') < 10; }

/* The end of a string that begins at a quote, copied as it is written; `escaped` tells of backslashes. */
static inline place string_end(state *s, place p, uint8_t **out, bool *escaped) {
    uint8_t *to = *out;
    *to++ = *p++;
    for (;;) {
        int count = plain_letters(p, to, &s->high);
        p += count, to += count;
        if (count == 16) continue;
        if (*p == '"') {
            *to++ = '"';
            *out = to;
            return p + 1;
        }
        if (*p != '\\') return odd(s, ODD_TEXT);
        if (!strchr("\"\\bfnrt", p[1]) || !p[1]) return odd(s, ODD_ESCAPE);
        *escaped = true;
        *to++ = *p++;
        *to++ = *p++;
    }
}

static inline place number_end(state *s, place p, bool *is_integer) {
    *is_integer = true;
    if (*p == '-') p++;
    if (*p == '0') p++;
    else if (is_digit(*p)) while (is_digit(*p)) p++;
    else return odd(s, ODD_TEXT);
    if (*p == '.') {
        *is_integer = false;
        if (!is_digit(*++p)) return odd(s, ODD_TEXT);
        while (is_digit(*p)) p++;
    }
    if (*p == 'e' || *p == 'E') {
        *is_integer = false;
        p++;
        if (*p == '+' || *p == '-') p++;
        if (!is_digit(*p)) return odd(s, ODD_TEXT);
        while (is_digit(*p)) p++;
    }
    return p;
}

static inline place word_end(state *s, place p) {
    if (!memcmp(p, "true", 4) || !memcmp(p, "null", 4)) return p + 4;
    return memcmp(p, "false", 5) ? odd(s, ODD_TEXT) : p + 5;
}

/* The text of a string without its escapes; at most as long as it is. */
static int64_t unescaped(span source, uint8_t *out) {
    static const char letters[] = "\"\\bfnrt", bytes[] = "\"\\\b\f\n\r\t";
    uint8_t *begin = out;
    for (int64_t i = 0; i < source.size; i++) {
        uint8_t letter = source.start[i];
        *out++ = letter == '\\' ? (uint8_t)bytes[strchr(letters, source.start[++i]) - letters] : letter;
    }
    return out - begin;
}

/* The end of any value, copied without white space; `is_plain` is false if a number in it is none that
   every reader writes alike. */
static place value_end(state *s, place p, uint8_t **out, bool *escaped, bool *is_plain) {
    uint64_t objects = 0; /* a bit for each open bracket */
    int depth = 0;
    uint8_t *to = *out;
    for (;;) {
        uint8_t letter = *p;
        if (letter == '"') {
            if (!(p = string_end(s, p, &to, escaped))) return NULL;
        } else if (letter == '[' || letter == '{') {
            if (++depth > DEEPEST) return odd(s, ODD_DEPTH);
            objects = objects << 1 | (letter == '{');
            *to++ = letter;
            p = space_end(p + 1);
            if (*p == (letter == '{' ? '}' : ']')) goto close;
            if (letter == '{') goto key;
            continue;
        } else if (letter == '-' || is_digit(letter)) {
            bool is_integer;
            place begin = p;
            if (!(p = number_end(s, p, &is_integer))) return NULL;
            if (!is_integer || p - begin > 15 || (*begin == '-' && begin[1] == '0')) *is_plain = false;
            memcpy(to, begin, (size_t)(p - begin));
            to += p - begin;
        } else {
            place begin = p;
            if (!(p = word_end(s, p))) return NULL;
            memcpy(to, begin, (size_t)(p - begin));
            to += p - begin;
        }
        for (;;) { /* after a value */
            if (!depth) {
                *out = to;
                return p;
            }
            p = space_end(p);
            if (*p == ',') {
                *to++ = ',';
                p = space_end(p + 1);
                if (objects & 1) goto key;
                break;
            }
            if (*p != (objects & 1 ? '}' : ']')) return odd(s, ODD_TEXT);
        close:
            *to++ = *p++;
            objects >>= 1;
            depth--;
        }
        continue;
    key:
        if (*p != '"' || !(p = string_end(s, p, &to, escaped))) return s->reason ? NULL : odd(s, ODD_TEXT);
        p = space_end(p);
        if (*p != ':') return odd(s, ODD_TEXT);
        *to++ = ':';
        p = space_end(p + 1);
    }
}

/* ---- words: texts that repeat ---- */

static inline uint32_t hash_of(span word, uint64_t hash) {
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    place p = word.start;
    int64_t left = word.size;
    hash = (hash ^ (uint64_t)left) * factor;
    for (; left >= 8; p += 8, left -= 8) {
        uint64_t part;
        memcpy(&part, p, 8);
        hash = (hash ^ part) * factor;
        hash ^= hash >> 32;
    }
    uint64_t part = 0;
    memcpy(&part, p, (size_t)left);
    hash = (hash ^ part) * factor;
    return (uint32_t)(hash >> 32) ^ (uint32_t)hash;
}

/* The number of a word in its column, or -1 if there is no room for a new one. */
static int32_t code_of(state *s, int32_t column, span word) {
    scan *c = s->scan;
    const entry *last = s->last[column] < 0 ? NULL : &c->entries[s->last[column]];
    if (last && last->size == word.size && !memcmp(c->words + last->start, word.start, last->size))
        return (int32_t)last->code;
    uint32_t hash = hash_of(word, (uint64_t)column + 1);
    for (uint64_t slot = hash & c->slot_mask;; slot = (slot + 1) & c->slot_mask) {
        if (c->slots[slot] >> 32 != c->stamp) {
            bool has_room = c->entries_used < c->most_entries && c->words_used + word.size <= c->most_words;
            if (!has_room) return -1;
            entry *new = &c->entries[c->entries_used];
            s->last[column] = (int32_t)c->entries_used;
            c->slots[slot] = c->stamp << 32 | (uint64_t)c->entries_used++;
            *new = (entry){hash, (uint32_t)column, (uint32_t)c->words_used, (uint32_t)word.size,
                           (uint32_t)c->codes_used[column]++};
            memmove(c->words + c->words_used, word.start, (size_t)word.size);
            c->words_used += word.size;
            return (int32_t)new->code;
        }
        int32_t number = (int32_t)c->slots[slot];
        const entry *found = &c->entries[number];
        bool is_same = found->hash == hash && found->column == (uint32_t)column && found->size == word.size;
        if (is_same && !memcmp(c->words + found->start, word.start, (size_t)word.size)) {
            s->last[column] = number;
            return (int32_t)found->code;
        }
    }
}

/* The number of a string as it is written between its quotes. */
static int32_t code_of_string(state *s, int32_t column, span string, bool escaped) {
    scan *c = s->scan;
    if (!escaped) return code_of(s, column, string);
    if (c->words_used + string.size > c->most_words) return -1;
    uint8_t *scratch = c->words + c->words_used; /* a new word is there already */
    return code_of(s, column, (span){scratch, unescaped(string, scratch)});
}

/* ---- members of events ---- */

/* An integer of at most 18 digits. */
static inline bool integer_of(span digits, int64_t *value) {
    place p = digits.start, end = p + digits.size;
    bool negative = p < end && *p == '-';
    p += negative;
    if (p == end || end - p > 18) return false;
    uint64_t sum = 0;
    for (; p < end; p++) {
        if (!is_digit(*p)) return false;
        sum = sum * 10 + (uint64_t)(*p - '0');
    }
    *value = negative ? -(int64_t)sum : (int64_t)sum;
    return true;
}

/* Nanoseconds of a number of microseconds with at most six decimals, rounded to the nearest, halves up. */
static bool nanoseconds(place p, place end, int64_t *ns, bool *rounded) {
    bool negative = *p == '-';
    p += negative;
    uint64_t whole = 0, part = 0;
    place begin = p;
    for (; p < end && is_digit(*p); p++) whole = whole * 10 + (uint64_t)(*p - '0');
    if (p - begin > 16 || whole > UINT64_C(4000000000000000)) return false;
    int decimals = 0;
    if (p < end && *p == '.') {
        for (p++; p < end && is_digit(*p); p++, decimals++) {
            if (decimals == 6) return false;
            part = part * 10 + (uint64_t)(*p - '0');
        }
    }
    if (p != end) return false;
    for (; decimals < 6; decimals++) part *= 10;
    int64_t most = (int64_t)(whole * 1000 + part / 1000), rest = (int64_t)(part % 1000);
    *rounded |= rest != 0;
    if (!negative) *ns = most + (rest >= 500);
    else *ns = -most - (rest > 500);
    return true;
}

static inline uint8_t key_hash(span key) {
    uint32_t first = 0;
    memcpy(&first, key.start, key.size < 4 ? (size_t)key.size : 4);
    return (uint8_t)(((first ^ (uint32_t)key.start[key.size - 1] << 16) * 0x9E3779B1u >> 24) + (uint32_t)key.size * 7);
}

/* The column of a member of the arguments, or -1. */
static inline int32_t key_of(const state *s, span key) {
    for (uint8_t i = s->first_key[key_hash(key)]; i != 255; i = s->next_key[i])
        if (s->key[i].size == key.size && !memcmp(s->key[i].start, key.start, (size_t)key.size)) return i;
    return -1;
}

/* Whether an event has a name a second time. */
static inline bool is_doubled(state *s, span name, uint64_t level) {
    uint32_t hash = hash_of(name, level);
    uint64_t own = (uint64_t)s->events << 32 | hash;
    for (uint32_t slot = hash % SEEN, looked = 0; looked < 64; slot = (slot + 1) % SEEN, looked++) {
        if (s->seen[slot] == own) return true;
        if (s->seen[slot] >> 32 != s->events) {
            s->seen[slot] = own;
            return false;
        }
    }
    return true; /* too many members */
}

/* A member of the arguments, from its name to after its value. */
static place argument(state *s, event *e, place p, uint8_t **out) {
    place begin = p;
    bool escaped = false;
    if (*p != '"') return odd(s, ODD_TEXT);
    if (!(p = string_end(s, p, out, &escaped))) return NULL;
    if (escaped) return odd(s, ODD_ESCAPE);
    span name = {begin + 1, p - begin - 2};
    if (!name.size) return odd(s, ODD_MEMBER);
    int32_t key = key_of(s, name);
    if (key < 0) {
        if (is_doubled(s, name, 7)) return odd(s, ODD_DOUBLED);
    } else {
        if (s->scan->key_kinds[key] == KIND_ODD) return odd(s, ODD_MEMBER);
        uint64_t bit = UINT64_C(1) << (key & 63);
        if (e->keys[key >> 6] & bit) return odd(s, ODD_DOUBLED);
        e->keys[key >> 6] |= bit;
    }
    p = space_end(p);
    if (*p != ':') return odd(s, ODD_TEXT);
    *(*out)++ = ':';
    p = space_end(p + 1);
    begin = p;
    bool is_plain = true;
    uint8_t *copy = *out;
    if (!(p = value_end(s, p, out, &escaped, &is_plain))) return NULL;
    if (key < 0 || *begin == 'n') return p;
    int64_t value;
    bool is_string = *begin == '"', is_number = *begin == '-' || is_digit(*begin);
    span inside = {begin + is_string, p - begin - 2 * is_string};
    switch (s->scan->key_kinds[key]) {
    case KIND_FLAG:
        if (*begin != 't' && *begin != 'f') return odd(s, ODD_VALUE);
        value = *begin == 't';
        break;
    case KIND_INTEGER:
        if (is_number || (is_string && inside.size && !escaped)) {
            if (!integer_of(inside, &value)) {
                uint8_t first = inside.start[0] | 0x20;
                if (is_number || first < 'a' || first > 'z') return odd(s, ODD_NUMBER);
                e->is_odd_memory = true;
                return p;
            }
            break;
        }
        if (*begin == 't' || *begin == 'f' || escaped) return odd(s, ODD_VALUE);
        e->is_odd_memory = true;
        return p;
    case KIND_DECIMAL:
        if (!is_number) return odd(s, ODD_VALUE);
        if (inside.size > 40 || memchr(begin, 'e', (size_t)inside.size) || memchr(begin, 'E', (size_t)inside.size))
            return odd(s, ODD_NUMBER);
        if ((value = code_of(s, WORDS + key, inside)) < 0) return odd(s, ODD_ROOM);
        break;
    default:
        if (!is_plain) return odd(s, ODD_NUMBER);
        if (is_string) value = code_of_string(s, WORDS + key, inside, escaped);
        else value = code_of(s, WORDS + key, (span){copy, *out - copy});
        if (value < 0) return odd(s, ODD_ROOM);
    }
    e->cell[e->cells++] = (cell){key, value};
    return p;
}

/* The arguments of an event, from their opening bracket. */
static place arguments(state *s, event *e, place p) {
    uint8_t *out = e->args_begin;
    *out++ = '{';
    p = space_end(p + 1);
    if (*p != '}') {
        for (;;) {
            if (!(p = argument(s, e, p, &out))) return NULL;
            p = space_end(p);
            if (*p == '}') break;
            if (*p != ',') return odd(s, ODD_TEXT);
            *out++ = ',';
            p = space_end(p + 1);
        }
    }
    *out++ = '}';
    e->args_end = out;
    e->has_args = true;
    return p + 1;
}

/* Members that are not of events belong to the arguments. */
static bool with_others(state *s, event *e) {
    if (!e->has_args) {
        e->args_begin[0] = '{', e->args_begin[1] = '}';
        e->args_end = e->args_begin + 2;
    }
    uint8_t *out = e->args_end - 1;
    for (int32_t i = 0; i < e->others; i++) {
        if (out[-1] != '{' || i) *out++ = ',';
        if (!argument(s, e, e->other[i].start, &out)) return false;
    }
    *out++ = '}';
    e->args_end = out;
    e->has_args = true;
    return true;
}

/* The column of a member of an event; FIXED for one that this scanner does not read, -1 for one that
   belongs to the arguments. */
static inline int32_t member_of(span name) {
#define IS(word, member) if (!memcmp(name.start, word, sizeof word - 1)) return member
    switch (name.size) {
    case 1: IS("s", SCOPE); break;
    case 2: IS("ph", PHASE); IS("ts", TIME); IS("id", ID); IS("bp", BINDING_POINT); break;
    case 3: IS("cat", CATEGORY); IS("pid", PID); IS("tid", TID); IS("dur", DURATION); IS("id2", FIXED); break;
    case 4: IS("name", NAME); IS("args", ARGS); break;
    case 5: IS("scope", FIXED); break;
    case 7: IS("bind_id", FIXED); IS("flow_in", FIXED); break;
    case 8: IS("flow_out", FIXED); break;
    }
#undef IS
    return -1;
}

static inline bool is_word(span own, const char *word) {
    return own.size == (int64_t)strlen(word) && !memcmp(own.start, word, strlen(word));
}

/* The table of an event, as `columns.py` says it. */
static int table_of(const event *e) {
    uint8_t phase = e->phase.size == 1 ? e->phase.start[0] : 0;
    bool has_category = e->codes[CATEGORY] >= 0;
    if (phase && strchr("iIX", phase) && is_word(e->name_text, "[memory]")
        && (!has_category || is_word(e->category, "cpu_instant_event"))) return MEMORY;
    if (phase == 'M' && (is_word(e->name_text, "process_name") || is_word(e->name_text, "process_labels")
        || is_word(e->name_text, "process_sort_index") || is_word(e->name_text, "thread_name")
        || is_word(e->name_text, "thread_sort_index"))) return THREADS;
    if (phase == 'X' && has_category && is_word(e->category, "profframe")) return INSTANTS;
    if (phase == 'C') return COUNTERS;
    if (phase && strchr("XBEbeSF", phase)) return EVENTS;
    return phase && strchr("stf", phase) ? FLOWS : INSTANTS;
}

static inline void set(column *c, int64_t row) {
    c->valid[row >> 3] |= (uint8_t)(1u << (row & 7));
    c->count++;
}

/* Write a text to a column of texts. */
static inline void write_text(column *c, int64_t row, const uint8_t *from, int64_t size, int64_t *used) {
    memmove(c->bytes + *used, from, (size_t)size);
    *used += size;
    set(c, row);
}

/* Write an event to the row of a table. */
static bool commit(state *s, event *e) {
    scan *c = s->scan;
    int table = table_of(e);
    int64_t row = s->rows[table];
    if (row >= c->most_rows) return odd(s, ODD_ROOM);
    if (table == MEMORY && e->is_odd_memory) return odd(s, ODD_NUMBER);
    column *own = c->columns + (size_t)table * (size_t)(FIXED + c->keys);
    for (int i = 0; i < WORDS; i++)
        if (e->codes[i] >= 0 && own[i].values) ((int32_t *)own[i].values)[row] = e->codes[i], set(&own[i], row);
    for (int i = 0; i < 2; i++)
        if (e->has >> i & 1 && own[TIME + i].values)
            ((int64_t *)own[TIME + i].values)[row] = e->ns[i], set(&own[TIME + i], row);
    if (e->is_rounded && own[ROUNDED].valid) set(&own[ROUNDED], row);
    if (own[ID].values) {
        if (e->has_id) write_text(&own[ID], row, e->id.start, e->id.size, &s->used[table][0]);
        ((int32_t *)own[ID].values)[row + 1] = (int32_t)s->used[table][0];
    }
    if (own[ARGS].values) {
        if (e->has_args) write_text(&own[ARGS], row, e->args_begin, e->args_end - e->args_begin, &s->used[table][1]);
        ((int32_t *)own[ARGS].values)[row + 1] = (int32_t)s->used[table][1];
    }
    for (int32_t i = 0; i < e->cells; i++) {
        column *to = &own[FIXED + e->cell[i].column];
        if (!to->values) continue;
        if (c->key_kinds[e->cell[i].column] == KIND_INTEGER) ((int64_t *)to->values)[row] = e->cell[i].value;
        else ((int32_t *)to->values)[row] = (int32_t)e->cell[i].value;
        set(to, row);
    }
    s->rows[table]++;
    return true;
}

/* The value of a member of an event that has a column, and is no object. */
static place member_value(state *s, event *e, int32_t member, place p) {
    place begin = p;
    bool is_time = member == TIME || member == DURATION;
    if (*p == '"') {
        bool escaped = false;
        uint8_t *out = s->scan->scratch;
        if (is_time || member == ARGS) return odd(s, ODD_VALUE);
        if (!(p = string_end(s, p, &out, &escaped))) return NULL;
        span inside = {begin + 1, p - begin - 2};
        if (member == ID) {
            if (escaped) return odd(s, ODD_ESCAPE);
            e->id = inside, e->has_id = true;
            return p;
        }
        if ((e->codes[member] = code_of_string(s, member, inside, escaped)) < 0) return odd(s, ODD_ROOM);
        if (member == PHASE) e->phase = inside;
        if (member == NAME) e->name_text = inside;
        if (member == CATEGORY) e->category = inside;
        return p;
    }
    if (*p == '-' || is_digit(*p)) {
        bool is_integer;
        if (!(p = number_end(s, p, &is_integer))) return NULL;
        span number = {begin, p - begin};
        if (member == ARGS) return odd(s, ODD_VALUE);
        if (is_time) {
            if (!nanoseconds(begin, p, &e->ns[member - TIME], &e->is_rounded)) return odd(s, ODD_NUMBER);
            e->has |= (uint8_t)(1 << (member - TIME));
        } else if (member == ID) {
            e->id = number, e->has_id = true;
        } else if ((e->codes[member] = code_of(s, member, number)) < 0) {
            return odd(s, ODD_ROOM);
        }
        return p;
    }
    return memcmp(p, "null", 4) ? odd(s, ODD_VALUE) : p + 4;
}

/* A member of an event, from its name to after its value. */
static place member_end(state *s, event *e, place p) {
    place begin = p;
    bool escaped = false, is_plain = true;
    uint8_t *out = s->scan->scratch;
    if (*p != '"') return odd(s, ODD_TEXT);
    if (!(p = string_end(s, p, &out, &escaped))) return NULL;
    if (escaped) return odd(s, ODD_ESCAPE);
    span name = {begin + 1, p - begin - 2};
    int32_t member = member_of(name);
    p = space_end(p);
    if (*p != ':') return odd(s, ODD_TEXT);
    p = space_end(p + 1);
    if (member < 0) {
        if (!name.size) return odd(s, ODD_MEMBER);
        if (is_doubled(s, name, 3)) return odd(s, ODD_DOUBLED);
        if (e->others == MOST_MEMBERS) return odd(s, ODD_ROOM);
        if (!(p = value_end(s, p, &out, &escaped, &is_plain))) return NULL;
        e->other[e->others++] = (span){begin, p - begin};
        return p;
    }
    if (member == FIXED) return odd(s, ODD_MEMBER);
    if (e->seen >> member & 1) return odd(s, ODD_DOUBLED);
    e->seen |= 1u << member;
    return member == ARGS && *p == '{' ? arguments(s, e, p) : member_value(s, e, member, p);
}

/* An event, after its opening bracket. */
static place event_end(state *s, event *e, place p) {
    e->phase = e->id = e->name_text = e->category = (span){p, 0};
    e->has_id = e->is_odd_memory = e->is_rounded = e->has_args = false;
    e->has = 0, e->cells = 0, e->others = 0, e->seen = 0;
    memset(e->codes, -1, sizeof e->codes);
    memset(e->keys, 0, sizeof e->keys);
    e->args_begin = s->scan->columns[ARGS].bytes + s->used[EVENTS][1]; /* most are of slices, and need no copy */
    s->events++;
    p = space_end(p);
    if (*p == '}') return odd(s, ODD_MEMBER);
    for (;;) {
        if (!(p = member_end(s, e, p))) return NULL;
        p = space_end(p);
        if (*p == '}') break;
        if (*p != ',') return odd(s, ODD_TEXT);
        p = space_end(p + 1);
    }
    if (e->others && !with_others(s, e)) return NULL;
    return commit(s, e) ? p + 1 : NULL;
}

/* ---- pieces ---- */

/* Whether the bytes are UTF-8, without halves of surrogate pairs. */
static bool is_utf8(place p, place end) {
    while (p < end) {
        uint8_t first = *p++;
        if (first < 0x80) continue;
        int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        if (first < 0xC2 || first > 0xF4 || end - p < more) return false;
        uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (*p < low || *p > high) return false;
        for (int i = 1; i < more; i++)
            if ((p[i] & 0xC0) != 0x80) return false;
        p += more;
    }
    return true;
}

static bool piece(state *s, event *e, place p, place end) {
    s->high = 0;
    if (*p != '[') return odd(s, ODD_TEXT);
    p = space_end(p + 1);
    if (*p != ']') {
        for (;;) {
            if (*p != '{') return odd(s, ODD_TEXT);
            if (!(p = event_end(s, e, p + 1))) return false;
            p = space_end(p);
            if (*p == ']') break;
            if (*p != ',') return odd(s, ODD_TEXT);
            p = space_end(p + 1);
        }
    }
    if (p != end - 1) return odd(s, ODD_TEXT);
    return true;
}

/* Take back the rows that a piece has in a table. */
static void take_back(state *s, int table, int64_t row, const int64_t *counts) {
    scan *c = s->scan;
    for (int32_t i = 0; i < FIXED + c->keys; i++) {
        column *own = &c->columns[table * (FIXED + c->keys) + i];
        int64_t before = counts[table * (FIXED + c->keys) + i];
        if (own->count == before) continue;
        own->count = before;
        int64_t first = row >> 3, last = (s->rows[table] - 1) >> 3;
        own->valid[first] &= (uint8_t)((1u << (row & 7)) - 1);
        memset(own->valid + first + 1, 0, (size_t)(last - first));
        if (!own->values || own->bytes) continue;
        size_t width = i == TIME || i == DURATION || (i >= FIXED && c->key_kinds[i - FIXED] == KIND_INTEGER) ? 8 : 4;
        memset((uint8_t *)own->values + (size_t)row * width, 0, (size_t)(s->rows[table] - row) * width);
    }
}

/* Take back the words of a piece, and their slots: the table of slots would fill up otherwise. */
static void take_back_words(state *s, int64_t entries, int64_t size) {
    scan *c = s->scan;
    while (c->entries_used > entries) {
        uint64_t number = (uint64_t)--c->entries_used, slot = c->entries[number].hash & c->slot_mask;
        while (c->slots[slot] != (c->stamp << 32 | number)) slot = (slot + 1) & c->slot_mask;
        c->slots[slot] = 0;
        c->codes_used[c->entries[number].column]--;
    }
    c->words_used = size;
    memset(s->last, -1, sizeof s->last);
}

EXPORT int64_t profframe_version(void) { return PROFFRAME_SCAN; }

EXPORT int64_t profframe_scan(scan *c) {
    state s;
    event e;
    int64_t counts[TABLES * (FIXED + MOST_KEYS)];
    int32_t columns = TABLES * (int32_t)(FIXED + c->keys);
    if (c->version != PROFFRAME_SCAN || c->keys > MOST_KEYS) return -1;
    s.scan = c;
    memset(s.rows, 0, sizeof s.rows);
    memset(s.used, 0, sizeof s.used);
    memset(s.seen, 0, sizeof s.seen);
    memset(s.last, -1, sizeof s.last);
    memset(s.first_key, 255, sizeof s.first_key);
    s.events = 0;
    for (int32_t i = 0; i < c->keys; i++) {
        s.key[i] = (span){c->key_text + c->key_bounds[i], c->key_bounds[i + 1] - c->key_bounds[i]};
        uint8_t hash = key_hash(s.key[i]);
        s.next_key[i] = s.first_key[hash];
        s.first_key[hash] = (uint8_t)i;
    }
    int64_t sound = 0;
    for (int64_t i = 0; i < c->pieces; i++) {
        int64_t rows[TABLES], used[TABLES][2];
        memcpy(rows, s.rows, sizeof rows);
        memcpy(used, s.used, sizeof used);
        memcpy(c->begins + i * TABLES, rows, sizeof rows);
        for (int32_t j = 0; j < columns; j++) counts[j] = c->columns[j].count;
        int64_t entries = c->entries_used, words = c->words_used;
        s.reason = 0;
        uint8_t *begin = c->text + c->bounds[i], *end = c->text + c->bounds[i + 1], behind = *end;
        *end = 0; /* nothing goes on behind it */
        bool is_sound = piece(&s, &e, begin, end);
        if (is_sound && s.high && !is_utf8(begin, end)) is_sound = odd(&s, ODD_TEXT);
        *end = behind;
        c->odd[i] = is_sound ? 0 : s.reason;
        sound += is_sound;
        if (is_sound) continue;
        for (int table = 0; table < TABLES; table++) take_back(&s, table, rows[table], counts);
        memcpy(s.rows, rows, sizeof rows);
        memcpy(s.used, used, sizeof used);
        take_back_words(&s, entries, words);
    }
    memcpy(c->begins + c->pieces * TABLES, s.rows, sizeof s.rows);
    return sound;
}

/* The words of all columns, one column after the other: those of column i are `codes_used[i]` from
   `offsets[sum of those before + i]` on. */
EXPORT void profframe_words(const scan *c, int32_t *offsets, uint8_t *bytes) {
    int64_t place_of[WORDS + MOST_KEYS + 1], size_of[WORDS + MOST_KEYS] = {0};
    int64_t at = 0;
    for (int32_t i = 0; i < WORDS + c->keys; i++) {
        place_of[i] = at;
        at += c->codes_used[i] + 1;
    }
    for (int64_t i = 0; i < c->entries_used; i++) size_of[c->entries[i].column] += c->entries[i].size;
    int64_t begin = 0;
    for (int32_t i = 0; i < WORDS + c->keys; i++) {
        offsets[place_of[i]] = (int32_t)begin;
        int64_t size = size_of[i];
        size_of[i] = begin;
        begin += size;
    }
    for (int64_t i = 0; i < c->entries_used; i++) { /* codes rise in a column */
        const entry *e = &c->entries[i];
        memcpy(bytes + size_of[e->column], c->words + e->start, e->size);
        size_of[e->column] += e->size;
        offsets[place_of[e->column] + e->code + 1] = (int32_t)size_of[e->column];
    }
}
