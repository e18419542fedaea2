package schedule

// MapParallel bounds the elements of a Map that are in work at the same time.
const MapParallel = 64

// mostText is how long a text a machine keeps to hash the next input in. Bytes.
const mostText = 64 << 10
