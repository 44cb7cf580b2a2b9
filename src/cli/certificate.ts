/** `prove --certificate` and `prove --check`: a proof written down, and repeated (PV-6). */
import type { ElfImage } from '../elf/image.js';
import { ElftraceError } from '../errors.js';
import { writeOutputs } from '../output/commit.js';
import {
  certificateDifference,
  type CertificateMethod,
  certificateText,
  CertificateWriter,
  type ProofSummary,
  readCertificate,
  type ReadCertificate,
  type SiteProof,
} from '../prove/index.js';
import { outputPath, readBytes } from './files.js';
import { digestOf } from './loaded-parts.js';
import type { Opened } from './open.js';
import type { ProveArguments } from './prove-arguments.js';
import { STANDARD_INPUT } from './standard-input.js';

/** What became of a certificate. */
export interface Certified {
  readonly file: string;
  /** It was written; or what a repetition gave: the same, or where the first difference is. */
  readonly outcome: 'written' | 'repeated' | 'different';
  readonly difference?: string;
}

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ElftraceError('bad-record', 'the certificate: file is not UTF-8', { what: 'file' });
  }
}

/** The certificate of one proof: what is asked of it, what it is made of. */
export class CertificateWork {
  private readonly text: string | null;
  private readonly read: ReadCertificate | null;
  private writer: CertificateWriter | null = null;

  /**
   * @throws ElftraceError 'usage' for options that do not go together; 'bad-record' for what is no
   *   certificate
   */
  constructor(private readonly given: ProveArguments) {
    const { check, certificate, patched, original } = given;
    if (certificate !== undefined && check !== undefined) {
      throw new ElftraceError('usage', '--certificate writes one, --check repeats one: not both');
    }
    if (certificate !== undefined) {
      for (const input of [patched, original]) if (input !== undefined) outputPath(input, certificate, false);
    }
    if (check === undefined) {
      this.text = this.read = null;
      return;
    }
    const { seed, trials, sample, mcount, table } = given;
    if ([seed, trials, sample, mcount, table].some((each) => each !== undefined)) {
      throw new ElftraceError('usage', '--check: seed, trials, sample and names are those of the certificate');
    }
    if (check === STANDARD_INPUT && [patched, original].includes(STANDARD_INPUT)) {
      throw new ElftraceError('usage', '--check: standard input is one file');
    }
    this.text = decoded(readBytes(check));
    try {
      this.read = readCertificate(this.text);
    } catch (error) {
      if (!(error instanceof ElftraceError)) throw error;
      throw new ElftraceError(error.code, error.message, { ...error.context, file: check }, { cause: error });
    }
  }

  /** What is proved, and how: where one is repeated, as it says. */
  get arguments(): ProveArguments {
    if (this.read === null) return this.given;
    const { seed, trials, sample, mcount, tables } = this.read.method;
    return {
      ...this.given,
      ...{ seed, trials },
      ...(sample === null ? {} : { sample }),
      ...(mcount.length === 0 ? {} : { mcount }),
      ...(tables.length === 0 ? {} : { table: tables }),
    };
  }

  /**
   * The files are known.
   * @returns what says that they are not those of the certificate, which ends the work
   */
  begin(before: ElfImage, after: Opened): Certified | null {
    const { check, certificate } = this.given;
    if ((check ?? certificate) === undefined) return null;
    const subjects = { original: digestOf(before.bytes), patched: digestOf(after.input.bytes) };
    for (const name of ['original', 'patched'] as const) {
      const wanted = this.read?.subjects[name];
      if (wanted === undefined || wanted === subjects[name]) continue;
      const difference = `it is about another ${name} file: SHA-256 ${wanted}, and not ${subjects[name]}`;
      return { file: check!, outcome: 'different', difference };
    }
    const { seed = 1, trials = 2, sample = null, mcount = [], table = [] } = this.arguments;
    const symbols = after.symbols === undefined ? 'own' : 'given';
    const method: CertificateMethod = { seed, trials, sample, mcount, tables: table, symbols };
    this.writer = new CertificateWriter(subjects, method, after.record);
    return null;
  }

  add(site: SiteProof): void {
    this.writer?.add(site);
  }

  /** The proof is over. */
  async end(summary: ProofSummary): Promise<Certified | null> {
    if (this.writer === null) return null;
    const certificate = this.writer.certificate(summary);
    if (this.read !== null) {
      const difference = certificateDifference(this.text!, certificate);
      const file = this.given.check!;
      return difference === null ? { file, outcome: 'repeated' } : { file, outcome: 'different', difference };
    }
    const path = this.given.certificate!;
    await writeOutputs([{ path, bytes: new TextEncoder().encode(certificateText(certificate)) }]);
    return { file: path, outcome: 'written' };
  }
}
