/* A record of a ring of version 2, as RT-11 has it: read as one of version 1. */
static struct ring_record read_record(const struct ring *ring, u64 number) {
  const struct ring_short *const from = &ring->records[number & (ring->capacity - 1)];
  const struct ring_short *const next = &ring->records[(number + 1) & (ring->capacity - 1)];
#if __SIZEOF_LONG__ == 8
  const u64 event = from->event[0], half = (u64)ring >> 32;
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  const u64 event = (u64)from->event[0] << 32 | from->event[1], half = 0;
#else
  const u64 event = (u64)from->event[1] << 32 | from->event[0], half = 0;
#endif
  const int is_far = (event & 8) != 0;
  return (struct ring_record){
    .time = event >> 8,
    .ip = (is_far ? next->ip : half) << 32 | from->ip,
    .parent_ip = (is_far ? next->parent_ip : half) << 32 | from->parent_ip,
    .kind = event & 7,
    .thread = event >> 4 & 15,
  };
}
