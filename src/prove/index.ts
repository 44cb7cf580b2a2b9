/**
 * Proofs of patched sites (PV-1 to PV-4): each changed site of an image is executed, alone, against
 * the original, from states that a seed gives. Works on images that cannot be started: kernels,
 * loaded modules.
 */
export type { ProveOptions } from './options.js';
export { prove } from './prove.js';
export { ruleOf, waysOf } from './ways.js';
export type { Account, Executed, Proof, ProofSummary, SiteProof } from './verdict.js';
export type { Difference } from './compare.js';
export {
  type Certificate,
  certificateDifference,
  type CertificateMethod,
  certificateText,
  CertificateWriter,
  readCertificate,
  type ReadCertificate,
  resultOf,
  TRIALS_MAX,
} from './certificate.js';
export { checkPair } from './pairing.js';
export { differenceText, whyOpen } from './refusals.js';
