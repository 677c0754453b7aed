-- Waiting for input data.

-- is_data_load: a DataLoader call for its next batch, as torch marks it.
-- parameter name VARCHAR  name of a slice
-- returns BOOLEAN  whether it is
-- example: SELECT is_data_load('enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__')
CREATE OR REPLACE TEMP MACRO is_data_load(name) AS starts_with(name, 'enumerate(DataLoader)#');

-- input_wait: how long a program waits in such a call: on ranks that used devices, the part in which no device was busy, because
-- loading that hides under work holds up nothing.
-- parameter idle_ns BIGINT  `idle_ns` of the slice
-- parameter dur_ns BIGINT  its duration
-- returns BIGINT  nanoseconds; NULL for a call that never ended
-- example: SELECT input_wait(NULL::BIGINT, 5::BIGINT)
CREATE OR REPLACE TEMP MACRO input_wait(idle_ns, dur_ns) AS coalesce(idle_ns, dur_ns);
