/* Scan documents by chance with buffers of exactly the size that the contract allows, and check what came out.

       harness SEED DOCUMENTS [THREADS]    a sanitizer finds reads and writes beyond a buffer
       harness FILE                        the same with calls that `test_native.py` wrote; nothing is known of their rows

   It prints how many pieces were handed back, and a hash of all outputs, which is that of every build. */

#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>

#include "../../profframe/native/scan.h"
#include "documents.h"

#define TOGETHER 4 /* documents that are scanned with the same buffers, one after the other */
#define BEHIND 16  /* bytes that may be read after the last piece */

int64_t profframe_version(void);
int64_t profframe_scan(scan *c);
void profframe_words(const scan *c, int32_t *offsets, uint8_t *bytes);

static _Thread_local uint64_t group; /* that is tried */

#define CHECK(condition) ((condition) ? (void)0 : failed(#condition, __LINE__))

static void failed(const char *condition, int line) {
    fprintf(stderr, "harness %" PRIu64 " %d fails in line %d: %s\n", group, TOGETHER, line, condition);
    exit(1);
}

/* Memory of exactly this size, with nothing in it that is known. */
static void *exact(int64_t count, size_t size) {
    void *bytes = malloc((size_t)count * size);
    CHECK(bytes);
    memset(bytes, 0xA5, (size_t)count * size);
    return bytes;
}

static void *zeros(int64_t count, size_t size) {
    void *bytes = calloc((size_t)count, size);
    CHECK(bytes);
    return bytes;
}

static uint64_t hash_with(uint64_t hash, const void *bytes, int64_t size) {
    const uint8_t *p = bytes;
    for (; size > 0; p += 8, size -= 8) {
        uint64_t part = 0;
        memcpy(&part, p, size < 8 ? (size_t)size : 8);
        hash = (hash ^ part) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* ---- a scan and its buffers ---- */

static bool is_text(int64_t column) { return column == ID || column == ARGS; }

static bool is_word(const scan *c, int64_t column) {
    return column < WORDS || (column >= FIXED && (c->key_kinds[column - FIXED] == KIND_WORD || c->key_kinds[column - FIXED] == KIND_DECIMAL));
}

static bool is_wide(const scan *c, int64_t column) {
    return column == TIME || column == DURATION || (column >= FIXED && c->key_kinds[column - FIXED] == KIND_INTEGER);
}

/* The number of a column among those that have words. */
static int64_t word_column(int64_t column) { return column < WORDS ? column : column - FIXED + WORDS; }

static int64_t number_at(const scan *c, const column *own, int64_t of_table, int64_t row) {
    return is_wide(c, of_table) ? ((int64_t *)own->values)[row] : ((int32_t *)own->values)[row];
}

static int64_t columns_of(const scan *c) { return FIXED + c->keys; }

static int64_t valid_size(const scan *c) { return (c->most_rows + 7) / 8; }

typedef struct {
    list *names; /* of the arguments that have columns */
    uint8_t *kinds;
    int64_t keys;
} keys;

static void give_keys(scan *c, const keys *own) {
    list text = {0};
    int64_t *bounds = exact(own->keys + 1, sizeof *bounds);
    bounds[0] = 0;
    for (int64_t i = 0; i < own->keys; i++) {
        put(&text, own->names[i].bytes, own->names[i].size);
        bounds[i + 1] = text.size;
    }
    uint8_t *letters = exact(text.size, 1), *kinds = exact(own->keys, 1);
    if (text.size) memcpy(letters, text.bytes, (size_t)text.size);
    if (own->keys) memcpy(kinds, own->kinds, (size_t)own->keys);
    free(text.bytes);
    c->version = profframe_version();
    c->keys = own->keys;
    c->key_text = letters, c->key_bounds = bounds, c->key_kinds = kinds;
}

/* How likely a table has a column, in percent: one of its own, and one of an argument. */
typedef struct {
    int64_t own, argument[TABLES];
} likely;

/* Buffers that are kept from one call to the next. */
static void give_buffers(scan *c, uint64_t *chance, const likely *have) {
    int64_t slots = 1;
    while (slots < 2 * c->most_entries) slots *= 2;
    c->slots = zeros(slots, sizeof *c->slots);
    c->slot_mask = (uint64_t)slots - 1;
    c->entries = exact(c->most_entries, sizeof *c->entries);
    c->words = exact(c->most_words, 1);
    c->codes_used = exact(WORDS + c->keys, sizeof *c->codes_used);
    c->columns = zeros(TABLES * columns_of(c), sizeof *c->columns);
    for (int64_t i = 0; i < TABLES * columns_of(c); i++) {
        int64_t table = i / columns_of(c), of_table = i % columns_of(c);
        bool is_needed = table == EVENTS && of_table == ARGS; /* those of all tables are put together there */
        if (!is_needed && !percent(chance, of_table < FIXED ? have->own : have->argument[table])) continue;
        c->columns[i].valid = zeros(valid_size(c), 1);
        if (of_table == ROUNDED) continue;
        c->columns[i].values = zeros(c->most_rows + is_text(of_table), is_wide(c, of_table) ? 8 : 4);
    }
}

static void free_scan(scan *c) {
    for (int64_t i = 0; i < TABLES * columns_of(c); i++) free(c->columns[i].values), free(c->columns[i].valid);
    void *const buffers[] = {c->columns, c->slots, c->entries, c->words, c->codes_used,
                             (void *)c->key_text, (void *)c->key_bounds, (void *)c->key_kinds};
    for (int64_t i = 0; i < COUNT(buffers); i++) free(buffers[i]);
}

/* ---- what has to hold ---- */

/* Whether bytes are UTF-8, by the numbers of its letters. */
static bool is_utf8(const uint8_t *bytes, int64_t size) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    for (int64_t i = 0; i < size;) {
        int64_t length = bytes[i] < 0x80 ? 1 : bytes[i] >> 5 == 6 ? 2 : bytes[i] >> 4 == 14 ? 3 : bytes[i] >> 3 == 30 ? 4 : 0;
        if (!length || i + length > size) return false;
        uint32_t number = length == 1 ? bytes[i] : bytes[i] & (0x7F >> length);
        for (int64_t j = i + 1; j < i + length; j++) {
            if (bytes[j] >> 6 != 2) return false;
            number = number << 6 | (bytes[j] & 0x3F);
        }
        if (number < least[length] || number > 0x10FFFF || number >> 11 == 27) return false;
        i += length;
    }
    return true;
}

typedef struct {
    int32_t *offsets;
    uint8_t *bytes;
    int64_t *first; /* offset of each column */
} words;

/* The words of all columns; their offsets rise, and they are all that was stored. */
static words words_of(const scan *c) {
    int64_t columns = WORDS + c->keys, codes = 0;
    words own = {0, exact(c->words_used, 1), exact(columns, sizeof *own.first)};
    for (int64_t i = 0; i < columns; i++) {
        CHECK(c->codes_used[i] >= 0);
        own.first[i] = codes + i;
        codes += c->codes_used[i];
    }
    CHECK(codes == c->entries_used && codes <= c->most_entries);
    CHECK(c->words_used >= 0 && c->words_used <= c->most_words);
    own.offsets = exact(codes + columns, sizeof *own.offsets);
    profframe_words(c, own.offsets, own.bytes);
    CHECK(own.offsets[0] == 0 && own.offsets[codes + columns - 1] == c->words_used);
    for (int64_t i = 1; i < codes + columns; i++) {
        CHECK(own.offsets[i - 1] <= own.offsets[i]);
        CHECK(is_utf8(own.bytes + own.offsets[i - 1], own.offsets[i] - own.offsets[i - 1]));
    }
    return own;
}

static bool has(const column *own, int64_t row) { return own->valid && own->valid[row >> 3] >> (row & 7) & 1; }

/* A column by itself; a hash of its values. */
static uint64_t column_hash(const scan *c, const column *own, int64_t of_table, int64_t rows, int64_t room, uint64_t hash) {
    int64_t count = 0;
    if (!own->valid) {
        CHECK(own->count == 0);
        return hash;
    }
    for (int64_t row = 0; row < 8 * valid_size(c); row++) {
        CHECK(!has(own, row) || row < rows);
        count += has(own, row);
    }
    CHECK(count == own->count);
    if (own->values && !is_text(of_table)) {
        int64_t codes = is_word(c, of_table) ? c->codes_used[word_column(of_table)] : 2;
        for (int64_t row = 0; row < c->most_rows; row++) {
            int64_t number = number_at(c, own, of_table, row);
            CHECK(number == 0 || has(own, row));
            CHECK(is_wide(c, of_table) || !has(own, row) || (number >= 0 && number < codes));
        }
        hash = hash_with(hash, own->values, (is_wide(c, of_table) ? 8 : 4) * rows);
    }
    if (is_text(of_table)) {
        const int32_t *ends = own->values;
        CHECK(ends[0] == 0 && ends[rows] <= room);
        for (int64_t row = 0; row < rows; row++) {
            CHECK(ends[row] <= ends[row + 1]);
            CHECK(has(own, row) || ends[row] == ends[row + 1]);
            CHECK(is_utf8(own->bytes + ends[row], ends[row + 1] - ends[row]));
            if (of_table != ARGS || !has(own, row)) continue;
            CHECK(ends[row + 1] - ends[row] >= 2);
            CHECK(own->bytes[ends[row]] == '{' && own->bytes[ends[row + 1] - 1] == '}');
        }
        hash = hash_with(hash, ends, 4 * (rows + 1));
        hash = hash_with(hash, own->bytes, ends[rows]);
    }
    return hash_with(hash, own->valid, valid_size(c));
}

/* A row has what was written, in each column that its table has. */
static void check_row(const scan *c, const document *d, const words *all, const known_row *known, int64_t row) {
    const known_cell *cells[FIXED + MOST_KEYS] = {0};
    for (int64_t i = 0; i < known->cells; i++) {
        const known_cell *cell = (const known_cell *)d->cells.bytes + known->first + i;
        cells[cell->column] = cell;
    }
    for (int64_t i = 0; i < columns_of(c); i++) {
        const column *own = &c->columns[known->table * columns_of(c) + i];
        if (!own->valid) continue;
        CHECK(has(own, row) == (cells[i] != NULL));
        if (!cells[i] || !own->values) continue;
        if (is_text(i)) {
            const int32_t *ends = own->values;
            CHECK(ends[row + 1] - ends[row] == cells[i]->size);
            CHECK(!memcmp(own->bytes + ends[row], d->known.bytes + cells[i]->start, (size_t)cells[i]->size));
        } else if (is_word(c, i)) {
            const int32_t *ends = all->offsets + all->first[word_column(i)] + number_at(c, own, i, row);
            CHECK(ends[1] - ends[0] == cells[i]->size);
            CHECK(!memcmp(all->bytes + ends[0], d->known.bytes + cells[i]->start, (size_t)cells[i]->size));
        } else {
            CHECK(number_at(c, own, i, row) == cells[i]->number);
        }
    }
}

/* Pieces are handed back for the reason that is known, and others have the rows that are known. */
static void check_pieces(const scan *c, const document *d, const words *all, bool has_room) {
    for (int64_t i = 0; i < c->pieces; i++) {
        const known_piece *known = (const known_piece *)d->pieces.bytes + i;
        int64_t next[TABLES];
        memcpy(next, c->begins + i * TABLES, sizeof next);
        bool is_full = c->odd[i] == ODD_ROOM && !has_room;
        if (known->plan == SOUND) CHECK(!c->odd[i] || is_full);
        if (known->plan == ODD) CHECK(c->odd[i] == known->reason || is_full);
        if (known->plan == CUT) CHECK(c->odd[i]);
        if (known->plan != SOUND || c->odd[i]) continue;
        for (int64_t j = 0; j < known->rows; j++) {
            const known_row *row = (const known_row *)d->rows.bytes + known->first_row + j;
            check_row(c, d, all, row, next[row->table]++);
        }
        CHECK(!memcmp(next, c->begins + (i + 1) * TABLES, sizeof next));
    }
}

typedef struct {
    int64_t documents, handed_back;
    uint64_t hash;
} result;

/* One call: what `pieces` and `bounds` have, in buffers of its own. */
static result scanned(scan *c, const list *text, const list *bounds, uint64_t *chance, const document *d, bool has_room) {
    int64_t pieces = bounds->size / (int64_t)sizeof(int64_t) - 1, longest = 0, sound = 0;
    uint8_t *letters = exact(text->size + BEHIND, 1), *before = exact(text->size + BEHIND, 1);
    if (text->size) memcpy(letters, text->bytes, (size_t)text->size);
    for (int64_t i = 0; i < BEHIND; i++) letters[text->size + i] = (uint8_t)drawn(chance);
    memcpy(before, letters, (size_t)(text->size + BEHIND));
    int64_t *own_bounds = exact(pieces + 1, sizeof *own_bounds);
    memcpy(own_bounds, bounds->bytes, (size_t)bounds->size);
    for (int64_t i = 0; i < pieces; i++)
        if (own_bounds[i + 1] - own_bounds[i] > longest) longest = own_bounds[i + 1] - own_bounds[i];
    c->text = letters, c->bounds = own_bounds, c->pieces = pieces;
    c->begins = exact((pieces + 1) * TABLES, sizeof *c->begins);
    c->odd = exact(pieces, 1);
    c->scratch = exact(longest + BEHIND, 1);
    c->stamp++;
    c->entries_used = c->words_used = 0;
    memset(c->codes_used, 0, (size_t)(WORDS + c->keys) * sizeof *c->codes_used);
    for (int64_t i = 0; i < TABLES * columns_of(c); i++) {
        column *own = &c->columns[i];
        own->count = 0;
        if (own->valid) memset(own->valid, 0, (size_t)valid_size(c));
        if (own->values) memset(own->values, 0, (size_t)c->most_rows * (is_wide(c, i % columns_of(c)) ? 8 : 4));
        own->bytes = is_text(i % columns_of(c)) && own->values ? exact(text->size + BEHIND, 1) : NULL;
    }

    int64_t taken = profframe_scan(c);
    CHECK(!memcmp(letters, before, (size_t)(text->size + BEHIND)));
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t *begins = c->begins + i * TABLES;
        sound += !c->odd[i];
        CHECK(c->odd[i] <= ODD_ROOM);
        for (int64_t table = 0; table < TABLES; table++) {
            CHECK(i || !begins[table]);
            CHECK(c->odd[i] ? begins[table] == begins[TABLES + table] : begins[table] <= begins[TABLES + table]);
        }
    }
    CHECK(taken == sound);
    const int64_t *rows = c->begins + pieces * TABLES;
    for (int64_t table = 0; table < TABLES; table++) CHECK(rows[table] >= 0 && rows[table] <= c->most_rows);
    words all = words_of(c);
    if (d) check_pieces(c, d, &all, has_room);
    uint64_t hash = hash_with(0, c->odd, pieces);
    hash = hash_with(hash, c->begins, (pieces + 1) * TABLES * (int64_t)sizeof *c->begins);
    hash = hash_with(hash, all.offsets, 4 * (c->entries_used + WORDS + c->keys));
    hash = hash_with(hash, all.bytes, c->words_used);
    for (int64_t i = 0; i < TABLES * columns_of(c); i++)
        hash = column_hash(c, &c->columns[i], i % columns_of(c), rows[i / columns_of(c)], text->size, hash);

    for (int64_t i = 0; i < TABLES * columns_of(c); i++) free(c->columns[i].bytes);
    void *const buffers[] = {letters, before, own_bounds, c->begins, c->odd, c->scratch, all.offsets, all.bytes, all.first};
    for (int64_t i = 0; i < COUNT(buffers); i++) free(buffers[i]);
    return (result){1, pieces - sound, hash};
}

static void add(result *to, result one) {
    to->documents += one.documents, to->handed_back += one.handed_back;
    to->hash += one.hash; /* in any order */
}

static int64_t letters_in(const list *text, char letter, int64_t begin, int64_t end) {
    int64_t count = 0;
    for (int64_t i = begin; i < end; i++) count += text->bytes[i] == letter;
    return count;
}

/* ---- documents by chance ---- */

static keys some_keys(uint64_t *chance) {
    static const char *const names[] = {"k", "External id", "key", "correlation", "keY", "Input Dims", "a name that is longer than 16 bytes"};
    keys own = {0};
    own.keys = percent(chance, 2) ? MOST_KEYS : below(chance, 10);
    own.names = zeros(own.keys, sizeof *own.names);
    own.kinds = exact(own.keys, 1);
    for (int64_t i = 0; i < own.keys; i++) {
        char text[64];
        int size = i < COUNT(names) ? snprintf(text, sizeof text, "%s", names[i]) : snprintf(text, sizeof text, "key %d", (int)i);
        put(&own.names[i], text, size);
        own.kinds[i] = (uint8_t)below(chance, KIND_ODD + 1);
    }
    return own;
}

static void free_keys(keys *own) {
    for (int64_t i = 0; i < own->keys; i++) free(own->names[i].bytes);
    free(own->names);
    free(own->kinds);
}

/* Room for all rows of a document. */
static int64_t most_rows_of(const document *d) {
    const int64_t *bounds = (const int64_t *)d->bounds.bytes;
    int64_t rows = 0;
    for (int64_t i = 0; i < d->pieces.size / (int64_t)sizeof(known_piece); i++) {
        const known_piece *piece = (const known_piece *)d->pieces.bytes + i;
        bool is_known = piece->plan == SOUND || piece->plan == CUT;
        rows += is_known ? piece->rows : letters_in(&d->text, '{', bounds[i], bounds[i + 1]);
    }
    return rows;
}

static result some_documents(uint64_t seed) {
    static const likely have = {85, {70, 30, 10, 10, 10, 10}};
    uint64_t chance = group = seed;
    keys own = some_keys(&chance);
    document documents[TOGETHER] = {0};
    scan c = {0};
    result all = {0};
    bool has_room = percent(&chance, 70);
    for (int64_t i = 0; i < TOGETHER; i++) {
        document *d = &documents[i];
        d->chance = &chance, d->keys = own.keys, d->key_names = own.names, d->key_kinds = own.kinds;
        write_document(d);
        int64_t rows = most_rows_of(d), entries = letters_in(&d->text, ':', 0, d->text.size);
        if (rows > c.most_rows) c.most_rows = rows;
        if (entries > c.most_entries) c.most_entries = entries;
        if (d->text.size > c.most_words) c.most_words = d->text.size;
    }
    if (!has_room) {
        static const int64_t few[] = {8, 100, 1000};
        if (percent(&chance, 60)) c.most_rows = below(&chance, 12);
        if (percent(&chance, 40)) c.most_entries = below(&chance, 40);
        if (percent(&chance, 40)) c.most_words = below(&chance, ONE_OF(&chance, few));
    }
    give_keys(&c, &own);
    give_buffers(&c, &chance, &have);
    for (int64_t i = 0; i < TOGETHER; i++) {
        add(&all, scanned(&c, &documents[i].text, &documents[i].bounds, &chance, &documents[i], has_room));
        free_document(&documents[i]);
    }
    free_scan(&c);
    free_keys(&own);
    return all;
}

typedef struct {
    uint64_t first, stop, step;
    result all;
} share;

static void *share_of(void *given) {
    share *own = given;
    for (uint64_t seed = own->first; seed < own->stop; seed += own->step) add(&own->all, some_documents(seed));
    return NULL;
}

static result by_chance(uint64_t seed, uint64_t groups, int64_t threads) {
    pthread_t others[64];
    share shares[64];
    result all = {0};
    CHECK(threads > 0 && threads <= COUNT(shares));
    for (int64_t i = 0; i < threads; i++) {
        shares[i] = (share){seed + (uint64_t)i, seed + groups, (uint64_t)threads, {0}};
        CHECK(!pthread_create(&others[i], NULL, share_of, &shares[i]));
    }
    for (int64_t i = 0; i < threads; i++) {
        CHECK(!pthread_join(others[i], NULL));
        add(&all, shares[i].all);
    }
    return all;
}

/* ---- calls in a file ---- */

static bool was_read(FILE *file, void *to, size_t size) { return fread(to, 1, size, file) == size; }

static uint32_t number_in(FILE *file) {
    uint32_t number;
    CHECK(was_read(file, &number, sizeof number));
    return number;
}

static void read_text(FILE *file, list *to, uint32_t size) {
    uint8_t *bytes = exact(size, 1);
    CHECK(was_read(file, bytes, size));
    put(to, bytes, size);
    free(bytes);
}

static result in_file(const char *path) {
    static const likely have = {100, {100, 100}};
    FILE *file = fopen(path, "rb");
    CHECK(file);
    keys own = {0};
    result all = {0};
    uint64_t chance = 0;
    uint32_t pieces;
    own.keys = number_in(file);
    own.names = zeros(own.keys, sizeof *own.names);
    own.kinds = exact(own.keys, 1);
    for (int64_t i = 0; i < own.keys; i++) {
        own.kinds[i] = (uint8_t)number_in(file);
        read_text(file, &own.names[i], number_in(file));
    }
    while (was_read(file, &pieces, sizeof pieces)) {
        list text = {0}, bounds = {0};
        scan c = {0};
        put(&bounds, &text.size, sizeof text.size);
        while (pieces--) {
            read_text(file, &text, number_in(file));
            put(&bounds, &text.size, sizeof text.size);
        }
        c.most_rows = letters_in(&text, '{', 0, text.size);
        c.most_entries = letters_in(&text, ':', 0, text.size), c.most_words = text.size;
        give_keys(&c, &own);
        give_buffers(&c, &chance, &have);
        add(&all, scanned(&c, &text, &bounds, &chance, NULL, true));
        free_scan(&c);
        free(text.bytes);
        free(bounds.bytes);
    }
    fclose(file);
    free_keys(&own);
    return all;
}

int main(int count, char **words) {
    result all;
    if (count == 2) all = in_file(words[1]);
    else if (count == 3 || count == 4) {
        uint64_t groups = strtoull(words[2], NULL, 10) / TOGETHER;
        all = by_chance(strtoull(words[1], NULL, 10), groups, count == 4 ? atoi(words[3]) : 1);
    } else return 2;
    printf("%" PRId64 " documents, %" PRId64 " pieces handed back, %016" PRIx64 "\n", all.documents, all.handed_back, all.hash);
    return 0;
}
