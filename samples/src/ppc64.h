/*
 * Function entry in assembly for both 64-bit PowerPC ABIs: ELFv1 names a descriptor in .opd, ELFv2 has a local entry
 * behind the TOC setup (TOC_FUNCTION) or one entry only (FUNCTION). SPDX-License-Identifier: MIT
 */
#if _CALL_ELF == 2
#define FUNCTION(name) .globl name; .type name, @function; name:
#define TOC_FUNCTION(name)                                                                \
  .globl name; .type name, @function; name: addis 2, 12, (.TOC. - name) @ha;              \
  addi 2, 2, (.TOC. - name) @l; .localentry name, . - name
#define END(name) .size name, . - name
#define FRAME 32
#else
#define FUNCTION(name)                                                                    \
  .section .opd, "aw"; .balign 8; .globl name; .type name, @function;                     \
  name: .quad .L.name, .TOC.@tocbase, 0; .previous; .L.name:
#define TOC_FUNCTION(name) FUNCTION(name)
#define END(name) .size name, . - .L.name
#define FRAME 112
#endif
