/**
 * Makes and checks expectations for the x86-64 length decoder.
 *
 *   node build/scripts/vectors-x86.js vectors > test/vectors/x86-length.txt
 *       random byte strings on which objdump and Capstone agree: bytes, size (0: no instruction),
 *       mnemonic
 *   node build/scripts/vectors-x86.js random COUNT SEED
 *       sizes of random byte strings against both; prints what both contradict without a known
 *       reason
 *   node build/scripts/vectors-x86.js walk FILE…
 *       every instruction of the text of ELF files against `objdump -d`
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { decodeInto, X86Instruction } from '../src/arch-x86/isa.js';
import {
  capstone5,
  compareSizes,
  objdumpMnemonic,
  objdumpSlots,
  randomSlots,
  runObjdump,
  SLOT_BYTES,
} from '../test/support/x86-oracles.js';

async function vectors(): Promise<void> {
  const version = runObjdump(['--version']).toString().split('\n')[0]!;
  console.log(`# ${version}; @alexaltea/capstone-js 5.0.9`);
  console.log('# bytes, size in bytes (0: no instruction in 64-bit mode), mnemonic of Capstone');
  console.log('# made by scripts/vectors-x86.ts: strings on whose size both agree, at most three for each mnemonic');
  const capstone = await capstone5();
  const slots = randomSlots(60_000, 20_240_229);
  const objdump = objdumpSlots(slots);
  const seen = new Map<string, number>();
  objdump.forEach(({ size }, i) => {
    const code = slots.subarray(i * SLOT_BYTES, i * SLOT_BYTES + 24);
    const verdict = capstone(code);
    if (verdict.size !== size) return;
    const key = size === 0 ? `invalid ${String(code[0])} ${String(code[1])}` : verdict.mnemonic;
    const count = seen.get(key) ?? 0;
    if (count >= (size === 0 ? 1 : 3) || (size === 0 && i % 8 !== 0)) return;
    seen.set(key, count + 1);
    const shown = Buffer.from(code.subarray(0, size === 0 ? 16 : size)).toString('hex');
    console.log(`${shown} ${size}${size === 0 ? '' : ` ${verdict.mnemonic}`}`);
  });
}

/** Differences that are objdump's way of printing, or the reason for ours; null: unexplained. */
function explain(bytes: readonly number[], text: string): string | null {
  if (text.startsWith('.byte')) return 'end of section';
  if (bytes.includes(0x9b)) return 'fwait printed together with an x87 instruction';
  if (bytes.includes(0xf0)) return 'LOCK on an instruction that cannot have it';
  if (bytes.includes(0x8c) || bytes.includes(0x8e)) return 'segment register that does not exist';
  if (bytes.includes(0xdb) && bytes.includes(0xe5)) return 'frstpm of the 80287';
  if (bytes[0] === 0x66) return 'near branch with 66: objdump decodes the AMD way';
  if ((bytes[0]! & 0xf0) === 0x40) return 'REX before VEX';
  return null;
}

async function walk(files: readonly string[]): Promise<void> {
  const out = new X86Instruction();
  const padded = new Uint8Array(SLOT_BYTES);
  const reasons = new Map<string, number>();
  let total = 0;
  let bad = 0;
  let unexplained = 0;
  for (const file of files) {
    const child = spawn('objdump', ['-d', '-w', '-M', 'intel', '--no-addresses', file]);
    let count = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      const [lead, hex, text] = line.split('\t');
      if (lead !== '' || hex === undefined || text === undefined || objdumpMnemonic(text) === '') continue;
      const bytes = hex
        .trim()
        .split(' ')
        .map((each) => Number.parseInt(each, 16));
      if (bytes.some(Number.isNaN)) continue;
      if (text.includes('(bad)')) {
        bad++;
        continue;
      }
      count++;
      padded.fill(0x90);
      padded.set(bytes.slice(0, 16));
      const size = decodeInto(out, padded, 0);
      if (size === bytes.length) continue;
      const reason = explain(bytes, text);
      if (reason === null) {
        unexplained++;
        console.log(`  ${hex.trim()}: objdump ${text}; ours ${size} ${out.mnemonic}`);
      } else reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    }
    total += count;
    console.log(`${file}: ${count}`);
  }
  console.log(`${total} instructions, ${unexplained} unexplained differences, ${bad} that objdump calls bad`);
  for (const [reason, count] of reasons) console.log(`  ${count} ${reason}`);
}

async function random(count: number, seed: number): Promise<void> {
  const capstone = await capstone5();
  const out = new X86Instruction();
  for (let done = 0; done < count; done += 50_000) {
    const slots = randomSlots(Math.min(50_000, count - done), seed + done);
    console.log(JSON.stringify(compareSizes(slots, capstone, objdumpSlots(slots), (code) => decodeInto(out, code, 0))));
  }
}

const [verb, ...files] = process.argv.slice(2);
if (verb === 'walk') await walk(files);
else if (verb === 'random') await random(Number(files[0] ?? 50_000), Number(files[1] ?? 1));
else await vectors();
