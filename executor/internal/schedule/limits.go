package schedule

// MapParallel bounds the elements of a Map that are in work at the same time.
const MapParallel = 64
