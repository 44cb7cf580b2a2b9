/** What a request decides for one site, before a plan is made of it. Types only. */
import type { SiteRefusal, WritableState } from '../machine/sites.js';

/** A refusal of a shape, or one that a request has a code of its own for. */
export type CodedRefusal = SiteRefusal & { readonly code?: string };

/** A state for one site, or why it has none: what a request with many targets decides per site. */
export type SiteDecision = WritableState | CodedRefusal;
