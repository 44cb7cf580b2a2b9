/**
 * Instructions that came with POWER9 as tests execute them: texts of an assembler. A row that is
 * executed and in none of them fails `lift-ppc-power9.test.ts`.
 */

const LETTERS = ['b', 'h', 'w'] as const;
/** The result in v2 (vs34), vectors in v3 to v5 (vs35 to vs37) and vs3 to vs5. */
const three = (name: string): string[] => [`${name} 2,3,4`, `${name} 3,3,4; vor 2,3,3`];
const one = (name: string): string[] => [`${name} 2,3`, `${name} 3,3; vor 2,3,3`];
const vsx = (name: string): string[] => [`${name} 34,35`, `${name} 3,4; xxlor 34,3,3`];
/** What is in r3, into the result. */
const general = (text: string): string => `${text}; mtvsrdd 34,10,10`;

export const POWER9_CASES: readonly string[] = [
  ...LETTERS.flatMap((letter) => [
    ...three(`vcmpne${letter}`), `vcmpne${letter}. 2,3,4`, `vcmpne${letter}. 2,3,3`, `vcmpnez${letter} 2,3,4`, `vcmpnez${letter}. 2,3,4`,
    `vcmpnez${letter}. 2,3,3`, ...three(`vabsdu${letter}`), ...one(`vctz${letter}`),
  ]),
  ...['w', 'd'].flatMap((letter) => [
    ...three(`vrl${letter}nm`), ...one(`vneg${letter}`), ...one(`vprtyb${letter}`),
  ]),
  // Of doublewords qemu does not insert.
  'vor 2,5,5; vrlwmi 2,3,4', 'vrlwmi 3,3,4; vor 2,3,3',
  ...['vprtybq', 'vctzd', 'vextsb2w', 'vextsb2d', 'vextsh2w', 'vextsh2d', 'vextsw2d', 'vmul10uq', 'vmul10cuq'].flatMap(one),
  ...['vslv', 'vsrv', 'vbpermd', 'vmul10euq', 'vmul10ecuq'].flatMap(three),
  'vmsumudm 2,3,4,5', 'vmsumudm 3,3,4,3; vor 2,3,3', 'vpermr 2,3,4,5', 'vpermr 2,4,4,3',
  'xxperm 34,35,36', 'xxperm 3,4,36; xxlor 34,3,3', 'xxpermr 34,35,4', 'xxpermr 3,36,5; xxlor 34,3,3',
  ...[0, 5, 15].map((n) => `vextractub 2,3,${n}`), ...[0, 7, 14].map((n) => `vextractuh 2,3,${n}`),
  ...[0, 3, 12].flatMap((n) => [`vextractuw 2,3,${n}`, `xxextractuw 34,35,${n}`, `xxextractuw 3,4,${n}; xxlor 34,3,3`]), ...[0, 8].map((n) => `vextractd 2,3,${n}`),
  ...[0, 5, 15].map((n) => `vor 2,4,4; vinsertb 2,3,${n}`), ...[0, 7, 14].map((n) => `vor 2,4,4; vinserth 2,3,${n}`),
  ...[0, 3, 12].flatMap((n) => [`vor 2,4,4; vinsertw 2,3,${n}`, `xxinsertw 3,36,${n}; xxlor 34,3,3`, `xxinsertw 35,4,${n}; xxlor 34,35,35`]), ...[0, 5, 8].map((n) => `vor 2,4,4; vinsertd 2,3,${n}`),
  ...[0, 9, 12].flatMap((n) => ['vextublx', 'vextuhlx', 'vextuwlx', 'vextubrx', 'vextuhrx', 'vextuwrx'].map((name) => general(`li 9,${16 + n}; ${name} 10,9,3`))),
  general('vclzlsbb 10,3'), general('vctzlsbb 10,3'), general('vcmpneb 3,3,4; vclzlsbb 10,3'), general('vcmpequb 3,3,4; vctzlsbb 10,3'),
  'xxspltib 34,0', 'xxspltib 3,200; xxlor 34,3,3',
  ...['xxbrh', 'xxbrw', 'xxbrd', 'xxbrq', 'xvxexpdp', 'xvxsigdp', 'xvxexpsp', 'xvxsigsp'].flatMap(vsx),
  'xviexpdp 34,35,4', 'xviexpdp 3,4,36; xxlor 34,3,3', 'xviexpsp 34,35,4', 'xviexpsp 3,4,36; xxlor 34,3,3',
  'mtvsrdd 34,9,8', 'mtvsrdd 3,0,9; xxlor 34,3,3', 'mtvsrws 34,9', 'mtvsrws 3,9; xxlor 34,3,3',
  'mfvsrld 10,35; mtvsrdd 34,10,10', 'mfvsrld 10,3; mtvsrdd 34,10,10',
  general('xsxexpdp 10,3'), general('xsxexpdp 10,36'), general('xsxsigdp 10,3'), general('xsxsigdp 10,36'),
  'mfvsrd 10,36; xsiexpdp 34,9,10; xxpermdi 34,34,34,0', 'mfvsrd 10,4; xsiexpdp 3,9,10; xxpermdi 34,3,3,0',
  ...['xsabsqp', 'xsnabsqp', 'xsnegqp', 'xsxexpqp', 'xsxsigqp'].flatMap(one), ...['xscpsgnqp', 'xsiexpqp'].flatMap(three),
]; // prettier-ignore

/** Accesses to r8 + r9, where r9 is 0 to 31, and lengths. */
export const POWER9_ACCESSES: readonly string[] = [
  'lxv 34,16(8)', 'lxv 3,0(8); xxlor 34,3,3', 'addi 8,8,16; add 8,8,9; lxv 34,-16(8)', 'stxv 35,32(8)', 'add 8,8,9; stxv 3,0(8)',
  ...['lxvx', 'lxvh8x', 'lxvb16x', 'lxvwsx'].flatMap((name) => [`${name} 34,8,9`, `${name} 3,8,9; xxlor 34,3,3`, `${name} 34,0,8`]),
  ...['stxvx', 'stxvh8x', 'stxvb16x'].flatMap((name) => [`${name} 35,8,9`, `${name} 3,8,9`, `${name} 3,0,8`]),
  ...['b', 'h'].flatMap((letter) => [`lxsi${letter}zx 34,8,9; xxpermdi 34,34,34,0`, `lxsi${letter}zx 3,8,9; xxpermdi 34,3,3,0`, `stxsi${letter}x 35,8,9`, `stxsi${letter}x 3,8,9`]),
  'add 8,8,9; lxsd 2,8(8); xxpermdi 34,34,34,0', 'addi 8,8,16; add 8,8,9; stxsd 3,-8(8)', 'add 8,8,9; lxssp 2,4(8); xxpermdi 34,34,34,0', 'addi 8,8,16; add 8,8,9; stxssp 3,-4(8)',
  ...['lxvl', 'lxvll'].flatMap((name) => [`sldi 9,9,56; ${name} 34,8,9`, `sldi 10,9,56; add 8,8,9; ${name} 3,8,10; xxlor 34,3,3`]),
  ...['stxvl', 'stxvll'].flatMap((name) => [`sldi 9,9,56; ${name} 35,8,9`, `sldi 10,9,56; add 8,8,9; ${name} 3,8,10`]),
  ...[0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 24].flatMap((code) => [
    `rlwinm 9,9,0,27,${code < 24 ? 28 : 27}; ldx 11,8,9; xori 12,11,1; add 8,8,9; ldat 10,8,${code}; mtvsrdd 34,10,11`,
    `rlwinm 9,9,0,27,29; ld 11,0(8); li 12,77; add 8,8,9; lwat 10,8,${code}; mtvsrdd 34,10,11`,
  // Of words qemu takes signs from above, and of code 25 a wrong number where nothing happens.
  ]).filter((text) => !/lwat 10,8,(24|[57])/.test(text)),
  ...[0, 1, 2, 3, 4, 5, 6, 7].flatMap((code) => [
    `rlwinm 9,9,0,27,28; ldx 11,0,8; add 8,8,9; stdat 11,8,${code}`, `rlwinm 9,9,0,27,29; ldx 11,0,8; add 8,8,9; stwat 11,8,${code}`,
  ]).filter((text) => !/stwat 11,8,[57]/.test(text)),
  'ld 11,0(8); std 11,8(8); stdat 9,8,24', 'stdat 9,8,24', 'ld 11,0(8); std 11,8(8); ldat 10,8,25; mtvsrdd 34,10,11', 'lwz 11,0(8); stw 11,4(8); stwat 9,8,24',
  'lwz 11,0(8); stw 11,4(8); lwat 10,8,25; mtvsrdd 34,10,11', 'lwat 10,8,24; mtvsrdd 34,10,11',
]; // prettier-ignore

/** Decimal numbers, which record always: in v3 and v4 such numbers. */
export const POWER9_DECIMALS: readonly string[] = [
  'bcdctn. 2,3', 'bcdctsq. 2,3', 'bcdcpsgn. 2,3,4',
  // Integers that fit: of others the manual says nothing.
  ...['bcdcfsq. 2,3,0', 'bcdcfsq. 2,3,1', 'vsro 5,5,4; vsubuqm 3,5,3; bcdcfsq. 2,3,1'].map(
    (text) => `vspltisb 4,8; vaddubm 4,4,4; vaddubm 4,4,4; vsro 3,3,4; ${text}`,
  ),
  ...[0, 1].flatMap((ps) => [
    `bcdctz. 2,3,${ps}`, `bcdctz. 2,3,${ps}; bcdcfz. 2,2,${ps}`, `bcdsetsgn. 2,3,${ps}`, `bcdctn. 2,3; bcdcfn. 2,2,${ps}`,
    ...[-16, -9, -1, 0, 1, 3, 15].flatMap((by) => [`vspltisb 4,${by}; bcds. 2,4,3,${ps}`, `vspltisb 4,${by}; bcdsr. 2,4,3,${ps}`]),
    ...[0, 1, 6, 15].map((length) => `vspltish 4,${length}; bcdtrunc. 2,4,3,${ps}`),
  ]),
  // Without a sign. Whether the last digit is 0 qemu does not ask.
  ...[-16, -9, -1, 0, 1, 3, 15].map((by) => `vspltisb 4,4; vsr 3,3,4; vspltisb 4,${by}; bcdus. 2,4,3; mtcrf 2,9`),
  ...[0, 1, 6, 15].map((length) => `vspltisb 4,4; vsr 3,3,4; vspltish 4,${length}; bcdutrunc. 2,4,3; mtcrf 2,9`),
]; // prettier-ignore
/** C that makes decimal numbers of `in`. */
export const DECIMALS_FILL = `
  for (int i = 0; i < 20; i++) {
    static const int lengths[] = {31, 20, 7, 1, 0, 16};
    u64 *words = (u64 *)in[i];
    words[0] = words[1] = 0;
    for (int digit = 0; digit <= lengths[i % 6]; digit++) {
      words[0] = words[0] << 4 | words[1] >> 60;
      words[1] = words[1] << 4 | (digit == lengths[i % 6] ? 10 + (next64() >> 9) % 6 : (next64() >> 9) % 10);
    }
  }
`;

const scalar = (name: string, isThree: boolean): string[] => [
  `${name} 34,3${isThree ? ',36' : ''}; xxpermdi 34,34,34,0`,
  `${name} 4,35${isThree ? ',5' : ''}; xxpermdi 34,4,4,0`,
];
/** Floating point, with FPSCR and fields of CR. */
export const POWER9_FLOATS: readonly string[] = [
  ...['add', 'sub', 'mul', 'div'].flatMap((name) => ['', 'o'].flatMap((odd) => three(`xs${name}qp${odd}`))),
  ...['madd', 'msub', 'nmadd', 'nmsub'].flatMap((name) =>
    // Of the last one qemu rounds the odd form to nearest.
    ['', 'o'].flatMap((odd) => (name === 'nmsub' && odd === 'o' ? [] : [`xs${name}qp${odd} 3,4,5; vor 2,3,3`])),
  ),
  ...['xssqrtqp', 'xssqrtqpo', 'xscvdpqp', 'xscvqpdp', 'xscvqpdpo', 'xscvsdqp', 'xscvudqp', 'xscvqpsdz', 'xscvqpudz', 'xscvqpswz', 'xscvqpuwz'].flatMap(one),
  ...[[0, 0], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3]].flatMap(([r, rm]) => ['xsrqpi', 'xsrqpix', 'xsrqpxp'].map((name) => `${name} ${r!},2,3,${rm!}`)),
  'xscmpuqp 1,3,4', 'xscmpoqp 6,3,4', 'xscmpuqp 1,3,3', 'xscmpexpqp 1,3,4', 'xscmpexpdp 6,3,36', 'xscmpexpdp 1,35,4',
  ...['xscvhpdp', 'xscvdphp'].flatMap((name) => scalar(name, false)), ...['xvcvhpsp', 'xvcvsphp'].flatMap(vsx),
  ...['eq', 'gt', 'ge'].flatMap((name) => scalar(`xscmp${name}dp`, true)),
  ...['xsmaxcdp', 'xsmincdp', 'xsmaxjdp', 'xsminjdp'].flatMap((name) => scalar(name, true)),
  ...[1, 2, 4, 8, 16, 32, 64, 127].flatMap((of) => [
    `xststdcdp 1,3,${of}`, `xststdcsp 6,36,${of}`, `xststdcqp 1,3,${of}`, `xvtstdcdp 34,3,${of}`, `xvtstdcsp 34,36,${of}`,
  ]),
  'mffsl 4; xxpermdi 34,4,4,0', 'mffsce 4; xxpermdi 34,4,4,0', 'mffscrn 4,3; xxpermdi 34,4,4,0', 'mffscdrn 4,3; xxpermdi 34,4,4,0',
  ...[0, 3].map((rm) => `mffscrni 4,${rm}; xxpermdi 34,4,4,0`), 'mffscdrni 4,5; xxpermdi 34,4,4,0',
]; // prettier-ignore

/** The rows of the instruction table that they are, by their names there. */
export const POWER9_ROWS: readonly string[] = [
  ...new Set(
    [...POWER9_CASES, ...POWER9_ACCESSES, ...POWER9_DECIMALS, ...POWER9_FLOATS].flatMap((text) =>
      text.split(';').map((each) =>
        each
          .trim()
          .replace(/ .*$/, '')
          .replace(/^(xs\w+qp(?:dp)?)o$/, '$1')
          .replace(/^(vcmp\w+)\.$/, '$1'),
      ),
    ),
  ),
];
