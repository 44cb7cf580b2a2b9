/** A plan on its way into a file. */
import type { ListedProbe } from '../kprobes/index.js';
import type { Plan } from '../patch/plan.js';
import type { FileRecord } from '../record/journal.js';
import type { PreparedImage } from './runtime.js';

export interface Planned {
  readonly plan: Plan;
  /** The image that the plan is about. */
  readonly on: PreparedImage;
  /** What the record keeps of a session; null: the request is none. */
  readonly kept: Pick<FileRecord, 'session' | 'forms' | 'brought' | 'gone'> | null;
  readonly probes: readonly ListedProbe[];
}
