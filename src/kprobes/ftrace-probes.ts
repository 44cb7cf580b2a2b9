/**
 * Probes on ftrace sites: they have neither breakpoint nor jump, but share one ops of the core,
 * whose filter holds their sites [K-ADDR-7]. Its callback finds the object of a probe by the ip of
 * the site, in a table.
 */
import type { Ops, Outcome } from '../ftrace/index.js';
import type { Session } from '../tracing/session.js';
import type { Address } from '../units.js';
import type { ProbeImage } from './probe-image.js';

export class FtraceProbes {
  /** What the core said of the last site. */
  outcome: Outcome | null = null;
  /** Probed sites, with their ips. */
  private readonly sites = new Map<Address, Address>();
  private ops: Ops | null = null;
  /** Word that points to the table of the callback. */
  private table: Address | null = null;

  /** @param whyNot  why the entries of an image serve no probe on the site at an address */
  constructor(
    private readonly session: Session,
    private readonly image: ProbeImage,
    private readonly whyNot: (address: Address) => string,
  ) {}

  has(address: Address): boolean {
    return this.sites.has(address);
  }

  /**
   * @param ip  of the site, as callbacks are told it
   * @param hasText  false: its module has gone, and it needs no object
   */
  arm(address: Address, ip: Address, hasText: boolean): void {
    const { core } = this.session;
    const func = this.session.functionAddress('elftrace_probe_ftrace');
    this.table ??= this.image.allocate(1);
    const data = this.table;
    if (func === null || data === null || (hasText && this.image.opOf(address) === null)) {
      const reason = func === null ? this.whyNot(address) : 'no room for the object of the probe';
      this.outcome = { kind: 'refused', errno: func === null ? 'EINVAL' : 'ENOMEM', reason };
      return;
    }
    const isFirst = this.sites.size === 0;
    const made = isFirst ? null : this.ops;
    const ops = made ?? core.createOps({ name: 'probes', func, data, flags: ['SAVE_REGS'] });
    const filtered = core.setFilterAddresses(ops, 'filter', [ip]);
    this.outcome = filtered.kind === 'done' && isFirst ? core.register(ops) : filtered;
    if (this.outcome.kind !== 'done') return;
    this.ops = ops;
    this.sites.set(address, ip);
  }

  disarm(address: Address): void {
    const { core } = this.session;
    const ip = this.sites.get(address);
    if (ip === undefined || this.ops === null) return;
    this.sites.delete(address);
    // A filter without sites would be everything.
    if (this.sites.size > 0) core.setFilterAddresses(this.ops, 'filter', [ip], { remove: true });
    else {
      core.unregister(this.ops);
      if (this.table !== null) this.image.free(this.table);
      this.table = null;
    }
  }

  /** The table of the callback: ips in ascending order, with the objects of their probes. */
  write(): void {
    if (this.table === null) return;
    const rows = [...this.sites].sort(([, a], [, b]) => (a < b ? -1 : 1));
    const words = [BigInt(rows.length), ...rows.flatMap(([address, ip]) => [ip, this.image.opOf(address) ?? 0n])];
    this.image.writeWords(this.table, [this.image.writeTable(words, rows[0]?.[0] ?? 0n)]);
  }
}
