/**
 * Names of C++ and Rust: against c++filt over all symbols of libstdc++ and of programs compiled
 * here, against rustfilt where it is installed; shown in text, kept in JSON, taken by selections.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { demangle, demangledText } from '../src/demangle/index.js';
import { type CliResult, warmElftrace } from './support/cli.js';
import { sampled } from './support/long.js';
import { edited, openBytes } from './support/pipeline.js';
import { describeWith, run, tool } from './support/tools.js';

const folder = mkdtempSync(join(tmpdir(), 'demangle-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const at = (name: string): string => join(folder, name);
const lines = (text: Buffer): string[] => text.toString().split('\n').filter(Boolean);
/** Mangled names of a file, without versions. */
const symbolsOf = (path: string, ...options: string[]): string[] => [
  ...new Set(
    lines(run('nm', ['--format=posix', ...options, path]))
      .map((line) => line.split(' ')[0]!.replace(/@.*/, ''))
      .filter((name) => /^_[ZR]/.test(name)),
  ),
];

/** Names for which a filter program says something else, as `symbol: ours, theirs`. */
function differences(filter: string, symbols: readonly string[]): string[] {
  const theirs = run(filter, [], `${symbols.join('\n')}\n`)
    .toString()
    .split('\n');
  return symbols.flatMap((symbol, i) => {
    const ours = demangle(symbol) ?? symbol;
    return ours === theirs[i] ? [] : [`${symbol}: ${ours}, ${theirs[i]!}`];
  });
}

const CXX = `
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>
namespace { struct Hidden { virtual ~Hidden() {} int operator()(int) const volatile { return 1; } }; Hidden hidden; }
template <class... T> auto pack(T &&...t) -> std::tuple<T...> { return std::tuple<T...>(std::forward<T>(t)...); }
template <class A, class B> auto sum(A a, B b) -> decltype(a + b * 2) { return a + b * 2; }
template <int N, bool B, char C> struct Literal { int f(int (&a)[N], int (*g)(char, ...)) noexcept { return a[0] + g(C, B); } };
template <class F> int apply(F f) { return f(3); }
template <class T> struct Conversion { template <class U> operator U() const { return U(); } };
struct Base { virtual int work(int) = 0; virtual ~Base(); };
Base::~Base() {}
struct Other { virtual int more(); int x; };
int Other::more() { return x; }
struct Derived : Other, virtual Base { int work(int) override; int operator[](long) &&; };
int Derived::work(int x) { static std::string kept = "kept"; return (int)kept.size() + x; }
int Derived::operator[](long) && { return 0; }
long double operator"" _x(unsigned long long) { return 1; }
int member(int (Base::*f)(int), int Derived::*, int (Derived::*g)(int) noexcept) { return f != nullptr; }
thread_local std::vector<int> local_one;
int user(int n) {
  std::map<std::string, std::vector<std::unique_ptr<int>>> m;
  std::vector<std::function<int(int)>> f;
  f.push_back([n](int x) { auto inner = [](auto y) { return y + 1; }; return inner(x) + inner(2.5) + n; });
  std::sort(f.begin(), f.end(), [](auto &, const auto &) { return false; });
  int a[3] = {1, 2, 3};
  Literal<3, true, 'x'> l;
  Conversion<int> c;
  auto p = pack(1, 2.0, std::string("x"), a);
  pack();
  local_one.push_back(n);
  return (int)(long)c + apply([&](int x) { return x; }) + (int)sum(1, 2.0f) + l.f(a, nullptr) + (int)std::get<0>(p) +
         (int)m.size() + Derived()[4] + hidden(3);
}
`;

describeWith(['g++', 'c++filt', 'nm'], 'C++', () => {
  test('all symbols of libstdc++ are what c++filt says', () => {
    const [library] = lines(run('g++', ['-print-file-name=libstdc++.so.6']));
    const symbols = symbolsOf(library!, '-D');
    const found = differences('c++filt', symbols);
    process.stderr.write(`libstdc++: ${symbols.length} names, ${found.length} differ from c++filt\n`);
    expect(symbols.length).toBeGreaterThan(4000);
    expect(found).toEqual([]);
    // None is left as it is.
    expect(symbols.filter((each) => demangle(each) === null)).toEqual([]);
  });

  test.each(
    sampled(
      [
        ['g++', 'c++17', '-O0'],
        ['g++', 'c++20', '-O2'],
        ['clang++', 'c++17', '-O1'],
      ] as const,
      2,
    ),
  )('a program by %s -std=%s %s', (compiler, standard, level) => {
    if (tool(compiler) === null) throw new Error(`${compiler} is missing`);
    writeFileSync(at('a.cc'), CXX);
    run(compiler, [`-std=${standard}`, level, '-w', '-c', '-o', at('a.o'), at('a.cc')]);
    const symbols = symbolsOf(at('a.o'));
    expect(symbols.length).toBeGreaterThan(40);
    expect(differences('c++filt', symbols)).toEqual([]);
  });

  test('suffixes of clones, thunks, tables, and what is no name', () => {
    const symbols = [
      '_Z3foov.constprop.0.isra.0',
      '_ZN1A1fEi.part.3.cold',
      '_ZThn16_N1A1fEv',
      '_ZTv0_n24_N1AD0Ev',
      '_ZTchn8_h8_N1A1fEv',
      '_ZTVN10__cxxabiv117__class_type_infoE',
      '_ZTC7Derived0_4Base',
      '_ZGVZ4userivE4kept',
      '_ZN12_GLOBAL__N_11fEv',
      '_Z1fIJidEEvDpT_',
      '_Z1fPFvvEPA3_iRA4_Kc',
      '_Z1fM1AKFvvE',
      '_Z1fDv4_f',
      '_Z',
      '_Z3fo',
      '_ZN1AE1',
      '_Zzz',
      '_Z1fS5_',
      '_Z1fT_',
    ];
    expect(differences('c++filt', symbols)).toEqual([]);
  });
});

/** As rustfilt 0.2.1 prints them. */
const RUST: readonly [symbol: string, name: string][] = [
  ['_ZN4core3fmt9Formatter3pad17h9b2b3a0e5b4d1b31E', 'core::fmt::Formatter::pad'],
  [
    '_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE',
    "<Test + 'static as foo::Bar<Test>>::bar",
  ],
  ['_ZN3foo3bar17h05af221e174051e9E.llvm.9D1C9369', 'foo::bar'],
  ['_RNvCs1234_7mycrate3foo', 'mycrate::foo'],
  [
    '_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8Iterator9rpositionNCNgNpB9_6memchr7memrchrs_0E0Cs5QL8hfsu3Kc_4core',
    '<core::slice::Iter<u8> as core::iter::iterator::Iterator>::rposition::<core::slice::memchr::memrchr::{closure#1}>::{closure#0}',
  ],
  [
    '_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std',
    'alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>',
  ],
  ['_RINtC8arrayvec8ArrayVechKj7b_E', 'arrayvec::ArrayVec::<u8, 123>'],
  ['_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y', 'utf8_idents::საჭმელად_გემრიელი_სადილი'],
  ['_RMCs4fqI2P2rA04_13const_genericINtB0_8UnsignedKhb_E', '<const_generic::Unsigned<11>>'],
  ['_RMCs4fqI2P2rA04_13const_genericINtB0_6SignedKs98_E', '<const_generic::Signed<152>>'],
  ['_RMCs4fqI2P2rA04_13const_genericINtB0_6SignedKanb_E', '<const_generic::Signed<-11>>'],
  ['_RMCs4fqI2P2rA04_13const_genericINtB0_4BoolKb1_E', '<const_generic::Bool<true>>'],
  ['_RMCs4fqI2P2rA04_13const_genericINtB0_4CharKc76_E', "<const_generic::Char<'v'>>"],
  ['_RNvMC0TFG_RRhEuEp', '_RNvMC0TFG_RRhEuEp'],
];

describe('Rust', () => {
  test('names of both schemes; what is damaged stays as it is', () => {
    expect(RUST.map(([symbol]) => demangle(symbol) ?? symbol)).toEqual(RUST.map(([, name]) => name));
    for (const [symbol] of RUST) {
      for (let cut = 3; cut < symbol.length; cut++) expect(() => demangle(symbol.slice(0, cut))).not.toThrow();
    }
  });
});

describeWith(['rustc', 'rustfilt'], 'Rust, as rustfilt says', () => {
  test('the list above', () => {
    expect(
      differences(
        'rustfilt',
        RUST.map(([symbol]) => symbol),
      ),
    ).toEqual([]);
  });

  test.each(['legacy', 'v0'])('a program mangled as %s', (scheme) => {
    writeFileSync(
      at('a.rs'),
      `use std::collections::HashMap;
       struct Held<const N: usize, T>([T; N]);
       trait Work { fn work(&self, x: &dyn Fn(&str) -> String) -> String; }
       impl<T: std::fmt::Debug, const N: usize> Work for Held<N, T> {
         fn work(&self, x: &dyn Fn(&str) -> String) -> String { x(&format!("{:?}", self.0.iter().map(|y| (y, N)).collect::<Vec<_>>())) }
       }
       fn main() {
         let mut m: HashMap<String, Box<dyn Work + Send>> = HashMap::new();
         m.insert("a".into(), Box::new(Held::<3, u8>([1, 2, 3])));
         m.insert("b".into(), Box::new(Held::<1, Option<&'static [char]>>([None])));
         for (k, v) in &m { println!("{} {}", k, v.work(&|s| s.to_owned())); }
       }`,
    );
    const made = spawnSync(
      'rustc',
      ['-g', `-Csymbol-mangling-version=${scheme}`, '-Zunstable-options', '-o', at('a.out'), at('a.rs')],
      {
        env: { ...process.env, RUSTC_BOOTSTRAP: '1' },
        encoding: 'utf8',
      },
    );
    expect([made.status, made.stderr]).toEqual([0, '']);
    const symbols = symbolsOf(at('a.out')).filter((name) => /^_R|17h[0-9a-f]{16}E/.test(name));
    expect(symbols.length).toBeGreaterThan(200);
    expect(differences('rustfilt', symbols)).toEqual([]);
  });

  test('all symbols of the standard library and of the compiler', () => {
    const libraries = join(run('rustc', ['--print', 'sysroot']).toString().trim(), 'lib');
    // Debian has them in the folder of the machine.
    const files = readdirSync(libraries, { withFileTypes: true })
      .flatMap((each) => {
        const path = join(libraries, each.name);
        return each.isDirectory() && each.name.endsWith('-linux-gnu')
          ? readdirSync(path).map((name) => join(path, name))
          : path;
      })
      .filter((path) => /\/lib(?:std|rustc_driver)-[^/]*\.so$/.test(path));
    let total = 0;
    for (const path of files) {
      const symbols = symbolsOf(path, '-D').filter((each) => /^_R|17h[0-9a-f]{16}E/.test(each));
      total += symbols.length;
      expect(differences('rustfilt', symbols)).toEqual([]);
    }
    expect(total).toBeGreaterThan(10_000);
    process.stderr.write(`rustc: ${total} names, none differs from rustfilt\n`);
  });
});

describe('damage', () => {
  test('no symbol takes long, fails or grows without end', () => {
    const doubling = `_Z1fI${'S_'.repeat(50)}E${'N1AI'.repeat(3000)}`;
    const pairs = `_Z1f${'1AIiiE'}${Array.from({ length: 60 }, (_, i) => `1AIS${i === 0 ? '' : (i - 1).toString(36).toUpperCase()}_S${i === 0 ? '' : (i - 1).toString(36).toUpperCase()}_E`).join('')}`;
    const deep = [`_Z1f${'P'.repeat(5000)}i`, `_R${'I'.repeat(5000)}`, `_RNvC1a1b${'R'.repeat(9000)}`, `_RYTBQ_B_EC1a`];
    const started = performance.now();
    for (const symbol of [doubling, pairs, ...deep]) expect((demangle(symbol) ?? '').length).toBeLessThan(1 << 19);
    expect(performance.now() - started).toBeLessThan(5000);
  });

  test('every cut and every changed letter of real names ends well', () => {
    for (const symbol of [
      '_ZNSt6vectorIiSaIiEE12emplace_backIJRKiEEERiDpOT_',
      '_ZSt3getILm0EJidEERNSt13tuple_elementIXT_ESt5tupleIJDpT0_EEE4typeERS4_',
      '_RINvNtCs1_4core3ptr13drop_in_placeDNtNtB4_3any3AnyG_L0_EB4_',
    ]) {
      for (let i = 2; i < symbol.length; i++) {
        for (const letter of 'ESTI_0ZNXLDpR9') {
          expect(() => demangle(symbol.slice(0, i) + letter + symbol.slice(i + 1))).not.toThrow();
        }
      }
    }
  });

  test('only whole words of a text are names', () => {
    expect(demangledText('call _Z1fv, at dir/_Z1fv x_Z1fv $_Z1fv (_Z1gi) _Zz')).toBe(
      'call f(), at dir/_Z1fv x_Z1fv $_Z1fv (g(int)) _Zz',
    );
  });
});

describeWith(['x86_64-linux-gnu-g++'], 'the command line', () => {
  const cli = (...args: string[]): CliResult => warmElftrace(args, { cwd: folder });
  const listed = (...args: string[]): string[] =>
    cli('list', 'cli.o', ...args)
      .stdout.trim()
      .split('\n');
  beforeAll(() => {
    const source =
      'namespace n { int f(int x) { return x; } int f(char *p, long) { return *p; } struct A { A(); }; A::A() {} } int plain() { return 1; }';
    writeFileSync(at('cli.cc'), source);
    run('x86_64-linux-gnu-g++', [
      '-O1',
      '-pg',
      '-mfentry',
      '-mrecord-mcount',
      '-fno-pie',
      '-c',
      '-o',
      at('cli.o'),
      at('cli.cc'),
    ]);
  });

  test('text has names, --no-demangle and JSON symbols, JSON the name beside it', () => {
    const names = ['n::f(int)', 'n::f(char*, long)', 'n::A::A()', 'plain()'];
    expect(listed()).toEqual(names);
    expect(listed('--no-demangle')).toEqual(['_ZN1n1fEi', '_ZN1n1fEPcl', '_ZN1n1AC2Ev', '_Z5plainv']);
    const { functions } = JSON.parse(cli('list', '--json', 'cli.o').stdout) as {
      functions: { name: string; demangled: string }[];
    };
    expect(functions.map(({ demangled }) => demangled)).toEqual(names);
    expect(functions[0]!.name).toBe('_ZN1n1fEi');
  });

  test('formats for machines keep symbols: they quote names in their own way', () => {
    const bytes = new Uint8Array(readFileSync(at('cli.o')));
    writeFileSync(at('bad.o'), edited(bytes, openBytes(bytes).sites.fileOffset(0), [0xcc]));
    for (const format of ['junit', 'ktap', 'github', 'sarif', 'ndjson']) {
      const { status, stdout } = cli('verify', 'bad.o', '--format', format);
      expect([format, status, stdout.includes('_ZN1n1fEi')]).toEqual([format, 1, true]);
      if (format !== 'ndjson') expect(stdout).not.toContain('n::f(int)');
    }
    expect(cli('verify', 'bad.o').stdout).toContain('(n::f(int)): error: ');
  });

  test('selections take either form', () => {
    expect(listed('-l', '_ZN1n1fEi')).toEqual(['n::f(int)']);
    expect(listed('-l', 'n::f(int)')).toEqual(['n::f(int)']);
    expect(listed('-l', 'n::f(char*, long)')).toEqual(['n::f(char*, long)']);
    expect(listed('-l', 'n::f*')).toEqual(['n::f(int)', 'n::f(char*, long)']);
    expect(listed('-n', 'n::*')).toEqual(['plain()']);
    expect(cli('list', 'cli.o', '-l', 'n::g(int)')).toMatchObject({ status: 2, stdout: '' });
    expect(cli('patch', 'cli.o', '--nop', '-l', 'n::f(char*, long)', '-o', 'one.o').status).toBe(0);
    expect(cli('diff', 'cli.o', 'one.o').stdout).toContain('changed n::f(char*, long): x86-64.call5');
    for (const verb of ['disasm', 'explain']) {
      const { status, stdout, stderr } = cli(verb, 'cli.o', 'n::f(char*, long)');
      expect([verb, status, stderr]).toEqual([verb, 0, '']);
      expect(stdout).toContain('n::f(char*, long)');
    }
  });
});
