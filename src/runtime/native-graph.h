/*
 * What entries of function_graph in assembly, its slow way and its unwind information share.
 * SPDX-License-Identifier: MIT
 */
#ifndef ELFTRACE_NATIVE_GRAPH_H
#define ELFTRACE_NATIVE_GRAPH_H

/* A word of native_spans: number of 64 MiB of addresses above, page number of the shadow below. */
#define SPANS 1024
#define SPAN_SHIFT 26
#define SPAN_PAGE_BITS 36

#endif
