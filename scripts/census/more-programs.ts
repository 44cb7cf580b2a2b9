/**
 * Beyond the census: more of what a distribution has, in trees of their own (800 MB for each
 * machine). Command lines are such that output depends neither on the user nor on the order in
 * which a file system keeps names.
 */
import type { Packages } from './roots.js';
import { at, type TreeProgram } from './programs.js';

export const MORE_PACKAGES: Packages = {
  suffix: '-more',
  names: [
    'gawk', 'mawk', 'sed', 'grep', 'tar', 'findutils', 'diffutils', 'patch', 'm4', 'make', 'flex', 'git', 'jq', 'ruby', 'tcl', 'guile-3.0',
    'ledit', 'shellcheck', 'gron', 'fd-find', 'vim-tiny', 'lame', 'flac', 'imagemagick', 'redis-server', 'nginx', 'postgresql', 'gdb', 'qpdf',
    'zstd', 'pigz', 'xz-utils', 'bzip2', 'rsync', 'bash', 'dash', 'coreutils', 'graphviz', 'libxml2-utils',
  ],
}; // prettier-ignore

const numbers = Array.from({ length: 300 }, (_, i) => `${(i * 7919) % 1009} line ${i}\n`).join('');

/** Files below `/tmp/census` of each tree, beside those of the census. */
export const MORE_FILES: Readonly<Record<string, string>> = {
  'changed.txt': numbers.replace('line 7\n', 'LINE\n'),
  'scan.l': '%option noyywrap\n%%\n[a-z]+ ;\n%%\n',
  Makefile: 'all: a b\n\t@echo all\na b:\n\techo $@\n',
};

const TAR = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--mtime=@0', '--mode=644'];
const JSON_TEXT = '{"a":[1,2.5],"c":"text"}';

export const MORE_PROGRAMS: readonly TreeProgram[] = [
  { name: 'gawk', command: ['/usr/bin/gawk', '{n+=$1; s[$1%7]++} END {print n, length(s), sqrt(n), sin(n)}', at('numbers.txt')] },
  { name: 'mawk', isCommon: true, command: ['/usr/bin/mawk', '{n+=$1} END {printf "%d %.6f\\n", n, exp(1)}', at('numbers.txt')] },
  { name: 'sed', isCommon: true, command: ['/usr/bin/sed', '-nE', 's/^([0-9]+) line (.*)/\\2:\\1/p', at('numbers.txt')] },
  { name: 'grep', isCommon: true, command: ['/usr/bin/grep', '-nE', '(1|2)3 line [0-9]+5$', at('numbers.txt')] },
  { name: 'tar', isCommon: true, command: ['/usr/bin/tar', '-C', at(''), ...TAR, '-cf', '-', 'numbers.txt', 'changed.txt'] },
  { name: 'find', isCommon: true, command: ['/usr/bin/find', at('.'), '-type', 'f', '-name', '*.txt', '-printf', '%f %s\\n'], isUnordered: true },
  { name: 'diff', isCommon: true, command: ['/usr/bin/diff', '-u', '--label', 'a', '--label', 'b', at('numbers.txt'), at('changed.txt')] },
  { name: 'm4', command: ['/usr/bin/m4'], input: "define(`f',`$1+$2')f(1,2) eval(2**20) len(abc)\n" },
  { name: 'flex', command: ['/usr/bin/flex', '-t', at('scan.l')], forks: true },
  { name: 'jq', command: ['/usr/bin/jq', '-c', '.a[1]*2, (.c|length), keys'], input: JSON_TEXT },
  { name: 'ruby', command: ['/usr/bin/ruby', '-e', 'puts (1..20).map { |i| Math.sqrt(i) }.sum, 3**80, "x".unpack("C*").inspect'] },
  { name: 'tclsh', command: ['/usr/bin/tclsh8.6'], input: 'puts [expr {sin(1)+2**70}]\nputs [lsort -integer {3 1 2}]\n' },
  { name: 'guile', command: ['/usr/bin/guile-3.0', '--no-auto-compile', '-c', '(display (list (expt 2 100) (sqrt 2) (/ 1 3)))'] },
  { name: 'gron', command: ['/usr/bin/gron'], input: JSON_TEXT },
  { name: 'fd', command: ['/usr/bin/fdfind', '-j1', 'txt$', at('')], isUnordered: true },
  { name: 'lame', command: ['/usr/bin/lame', '--quiet', '-r', '-s', '8', '--bitwidth', '16', '-m', 'm', '-b', '32', '-', '-'], input: numbers.repeat(10) },
  { name: 'flac', command: ['/usr/bin/flac', '-s', '-c', '--force-raw-format', '--endian=little', '--sign=signed', '--channels=1', '--bps=16', '--sample-rate=8000', '-'], input: numbers.repeat(4) },
  { name: 'zstd', command: ['/usr/bin/zstd', '-T2', '-c', '-q', at('numbers.txt')] },
  { name: 'pigz', command: ['/usr/bin/pigz', '-c', '-n', '-p2', at('numbers.txt')] },
  { name: 'xz -T2', command: ['/usr/bin/xz', '-T2', '-c', at('numbers.txt')] },
  { name: 'rsync', command: ['/usr/bin/rsync', '-nri', '--include=*.txt', '--exclude=*', at(''), '/tmp/absent/'] },
  { name: 'rsync list', command: ['/usr/bin/rsync', '-r', '--list-only', '--include=*.txt', '--exclude=*', at('')] },
  { name: 'gdb', command: ['/usr/bin/gdb', '--version'] },
  { name: 'qpdf', command: ['/usr/bin/qpdf', '--version'] },
  { name: 'git', isCommon: true, command: ['/usr/bin/git', 'hash-object', at('numbers.txt')] },
  { name: 'shellcheck', command: ['/usr/bin/shellcheck', '-'], input: '#!/bin/sh\necho $1\n' },
  { name: 'redis', command: ['/usr/bin/redis-server', '--version'] },
  { name: 'nginx', command: ['/usr/sbin/nginx', '-v'] },
  { name: 'vim', command: ['/usr/bin/vim.tiny', '--version'] },
  { name: 'make', isCommon: true, command: ['/usr/bin/make', '-f', at('Makefile'), '-n'] },
  { name: 'xmllint', command: ['/usr/bin/xmllint', '--format', '-'], input: '<a><b c="1"/>x</a>' },
  { name: 'dot', command: ['/usr/bin/dot', '-V'] },
]; // prettier-ignore
