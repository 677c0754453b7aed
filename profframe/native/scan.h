/* What a caller of the scanner gives and gets: README.md has the contract. */

#ifndef PROFFRAME_SCAN_H
#define PROFFRAME_SCAN_H

#include <stdint.h>

#define PROFFRAME_SCAN 1 /* changes whenever this file does */

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { EVENTS, MEMORY, FLOWS, COUNTERS, THREADS, INSTANTS, TABLES };

/* Columns of each table: words, times, a flag, texts; those of the arguments come after them. */
enum {
    PHASE, CATEGORY, NAME, PID, TID, SCOPE, BINDING_POINT, WORDS,
    TIME = WORDS, DURATION, ROUNDED, ID, ARGS, FIXED
};

#define MOST_KEYS 128

enum { KIND_INTEGER, KIND_WORD, KIND_FLAG, KIND_DECIMAL, KIND_ODD };

/* Why a piece is handed back. */
enum { ODD_TEXT = 1, ODD_ESCAPE, ODD_NUMBER, ODD_VALUE, ODD_MEMBER, ODD_DOUBLED, ODD_DEPTH, ODD_ROOM };

typedef struct {
    void *values;    /* int64 for times and integers, int32 codes for words and flags, all 0 before, as where a row has
                        no value; int32 ends for texts; or NULL */
    uint8_t *valid;  /* a bit for each row, all 0 before */
    uint8_t *bytes;  /* of texts */
    int64_t count;   /* values that are not NULL */
} column;

typedef struct {
    uint32_t hash, column, start, size, code;
} entry;

typedef struct {
    int64_t version;
    uint8_t *text;           /* 16 more bytes can be read after the last piece; unchanged afterwards */
    const int64_t *bounds;   /* of the pieces, one more than there are */
    int64_t pieces;
    const uint8_t *key_text; /* names of the arguments that have columns, one after another */
    const int64_t *key_bounds;
    const uint8_t *key_kinds;
    int64_t keys;
    int64_t most_rows;       /* of each table */
    column *columns;         /* of each table, FIXED and one for each key */
    uint64_t *slots;         /* a power of two, at least twice `most_entries`; kept for other calls */
    uint64_t slot_mask;
    uint64_t stamp;          /* of this call: no slot has it yet */
    entry *entries;
    int64_t most_entries, entries_used;
    uint8_t *words;
    int64_t most_words, words_used;
    int64_t *codes_used;     /* words of each column, all 0 before */
    uint8_t *scratch;        /* as long as the longest piece, and 16 more */
    int64_t *begins;         /* rows of each table before each piece, and at the end */
    uint8_t *odd;            /* for each piece 0, or why it is handed back */
} scan;

#endif
