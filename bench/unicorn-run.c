/*
 * Runs a static program of the yardstick on libunicorn: maps its segments and a stack with its
 * arguments, and serves the two system calls that those programs make, write and exit. What
 * `npm run bench -- yardstick` measures beside qemu-user, on the machines that libunicorn has.
 * Public domain interface: <unicorn/unicorn.h>.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unicorn/unicorn.h>
#include <unistd.h>

#define STACK_TOP 0x7ffff0000000ul
#define STACK_BYTES 0x800000ul
#define PAGE 0x1000ul

struct machine {
	int elf;
	uc_arch arch;
	uc_mode mode;
	int sp, number, first, second, third;
	uint64_t write, exit, exit_group;
};

static const struct machine machines[] = {
	{ EM_X86_64, UC_ARCH_X86, UC_MODE_64, UC_X86_REG_RSP, UC_X86_REG_RAX, UC_X86_REG_RDI, UC_X86_REG_RSI,
	  UC_X86_REG_RDX, 1, 60, 231 },
	{ EM_AARCH64, UC_ARCH_ARM64, UC_MODE_ARM, UC_ARM64_REG_SP, UC_ARM64_REG_X8, UC_ARM64_REG_X0, UC_ARM64_REG_X1,
	  UC_ARM64_REG_X2, 64, 93, 94 },
	{ EM_RISCV, UC_ARCH_RISCV, UC_MODE_RISCV64, UC_RISCV_REG_SP, UC_RISCV_REG_A7, UC_RISCV_REG_A0, UC_RISCV_REG_A1,
	  UC_RISCV_REG_A2, 64, 93, 94 },
};

static const struct machine *machine;
static int status = 99;

static void check(uc_err error, const char *what)
{
	if (error == UC_ERR_OK)
		return;
	fprintf(stderr, "unicorn-run: %s: %s\n", what, uc_strerror(error));
	exit(98);
}

static uint64_t get(uc_engine *uc, int reg)
{
	uint64_t value = 0;
	check(uc_reg_read(uc, reg, &value), "register");
	return value;
}

static void call(uc_engine *uc)
{
	uint64_t number = get(uc, machine->number);
	if (number == machine->write) {
		uint64_t size = get(uc, machine->third);
		char *bytes = malloc(size + 1);
		check(uc_mem_read(uc, get(uc, machine->second), bytes, size), "write");
		uint64_t done = write((int)get(uc, machine->first), bytes, size);
		free(bytes);
		check(uc_reg_write(uc, machine->elf == EM_X86_64 ? machine->number : machine->first, &done), "write");
		return;
	}
	if (number == machine->exit || number == machine->exit_group)
		status = (int)get(uc, machine->first) & 255;
	else
		fprintf(stderr, "unicorn-run: system call %lu\n", (unsigned long)number);
	uc_emu_stop(uc);
}

static void on_syscall(uc_engine *uc, void *data)
{
	(void)data;
	call(uc);
}

static void on_interrupt(uc_engine *uc, uint32_t number, void *data)
{
	(void)number;
	(void)data;
	call(uc);
}

/* Maps the pages of [start, end) that are not there yet. */
static void map(uc_engine *uc, uint64_t start, uint64_t end)
{
	for (uint64_t page = start & -PAGE; page < end; page += PAGE) {
		char probe;
		if (uc_mem_read(uc, page, &probe, 1) == UC_ERR_OK)
			continue;
		uint64_t behind = page + PAGE;
		while (behind < end && uc_mem_read(uc, behind, &probe, 1) != UC_ERR_OK)
			behind += PAGE;
		check(uc_mem_map(uc, page, behind - page, UC_PROT_ALL), "segment");
		page = behind - PAGE;
	}
}

static uint64_t push(uc_engine *uc, uint64_t at, const void *bytes, size_t size)
{
	at -= size;
	check(uc_mem_write(uc, at, bytes, size), "stack");
	return at;
}

/* The stack as Linux has it at the start: argc, argv, no environment, no auxiliary vector. */
static uint64_t stack(uc_engine *uc, int argc, char **argv)
{
	uint64_t words[64] = { 0 }, at = STACK_TOP - PAGE;
	map(uc, STACK_TOP - STACK_BYTES, STACK_TOP);
	words[0] = argc;
	for (int i = 0; i < argc && i < 32; i++)
		words[1 + i] = at = push(uc, at, argv[i], strlen(argv[i]) + 1);
	at = (at & -16ul) - sizeof(words);
	check(uc_mem_write(uc, at, words, sizeof(words)), "stack");
	return at;
}

int main(int argc, char **argv)
{
	struct stat st;
	uc_engine *uc;
	uc_hook hook;
	int fd;
	if (argc < 2 || (fd = open(argv[1], O_RDONLY)) < 0 || fstat(fd, &st))
		return 97;
	const char *file = mmap(0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)file;
	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
		if (machines[i].elf == head->e_machine)
			machine = &machines[i];
	if (file == MAP_FAILED || !machine)
		return 97;
	check(uc_open(machine->arch, machine->mode, &uc), "open");
	const Elf64_Phdr *segments = (const Elf64_Phdr *)(file + head->e_phoff);
	for (int i = 0; i < head->e_phnum; i++) {
		const Elf64_Phdr *each = &segments[i];
		if (each->p_type != PT_LOAD)
			continue;
		map(uc, each->p_vaddr, each->p_vaddr + each->p_memsz);
		check(uc_mem_write(uc, each->p_vaddr, file + each->p_offset, each->p_filesz), "segment");
	}
	uint64_t sp = stack(uc, argc - 1, argv + 1);
	check(uc_reg_write(uc, machine->sp, &sp), "stack");
	if (machine->elf == EM_X86_64)
		check(uc_hook_add(uc, &hook, UC_HOOK_INSN, on_syscall, 0, 1, 0, UC_X86_INS_SYSCALL), "hook");
	else
		check(uc_hook_add(uc, &hook, UC_HOOK_INTR, on_interrupt, 0, 1, 0), "hook");
	if (machine->elf == EM_AARCH64) {
		/* Floating point, as the kernel gives it to processes. */
		uint64_t enabled = 3 << 20;
		check(uc_reg_write(uc, UC_ARM64_REG_CPACR_EL1, &enabled), "floating point");
	}
	check(uc_emu_start(uc, head->e_entry, 0, 0, 0), "run");
	return status;
}
