/*
 * The least that a C program must do to nop every call of __fentry__ in a 64-bit little-endian x86
 * object: map it, walk the relocations of .text, overwrite the call and neutralise the relocation,
 * write the copy. Yardstick of `npm run bench`.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const unsigned char nop5[5] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	struct stat st;
	unsigned long patched = 0;
	int fd, i;

	if (argc != 3 || (fd = open(argv[1], O_RDONLY)) < 0 || fstat(fd, &st))
		return 2;
	unsigned char *base = mmap(0, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (base == MAP_FAILED)
		return 2;
	Elf64_Ehdr *eh = (Elf64_Ehdr *)base;
	Elf64_Shdr *sh = (Elf64_Shdr *)(base + eh->e_shoff);
	for (i = 0; i < eh->e_shnum; i++) {
		if (sh[i].sh_type != SHT_RELA || !(sh[sh[i].sh_info].sh_flags & SHF_EXECINSTR))
			continue;
		unsigned char *text = base + sh[sh[i].sh_info].sh_offset;
		Elf64_Sym *sym = (Elf64_Sym *)(base + sh[sh[i].sh_link].sh_offset);
		const char *str = (const char *)base + sh[sh[sh[i].sh_link].sh_link].sh_offset;
		Elf64_Rela *r = (Elf64_Rela *)(base + sh[i].sh_offset);
		Elf64_Rela *end = r + sh[i].sh_size / sizeof(*r);
		for (; r < end; r++) {
			if (strcmp(str + sym[ELF64_R_SYM(r->r_info)].st_name, "__fentry__"))
				continue;
			if (text[r->r_offset - 1] != 0xe8)
				return 1;
			memcpy(text + r->r_offset - 1, nop5, 5);
			r->r_info = 0;
			patched++;
		}
	}
	fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, base, st.st_size) != st.st_size)
		return 2;
	printf("%lu\n", patched);
	return 0;
}
