/**
 * What `struct termios` is like: most machines have that of asm-generic, some one of their own.
 *
 * Source: Linux, asm-generic/termbits.h, termbits-common.h, termios(3).
 */

/** Bits of its four words that do something. */
export type InputFlag = 'ISTRIP' | 'INLCR' | 'IGNCR' | 'ICRNL' | 'IUCLC' | 'IXON' | 'IXANY' | 'IMAXBEL' | 'IUTF8';
export type OutputFlag = 'OPOST' | 'OLCUC' | 'ONLCR' | 'OCRNL' | 'ONOCR' | 'ONLRET' | 'XTABS';
export type ControlFlag = 'CSIZE' | 'CS8' | 'CREAD' | 'PARENB' | 'B38400';
export type LocalFlag =
  | 'ISIG' | 'ICANON' | 'ECHO' | 'ECHOE' | 'ECHOK' | 'ECHONL' | 'NOFLSH' | 'TOSTOP' | 'ECHOCTL' | 'ECHOKE' | 'IEXTEN'; // prettier-ignore
/** Characters that mean something, in this order with what they are in a new terminal. */
export type SpecialCharacter =
  | 'VINTR' | 'VQUIT' | 'VERASE' | 'VKILL' | 'VEOF' | 'VTIME' | 'VMIN' | 'VSTART' | 'VSTOP' | 'VSUSP' | 'VEOL' | 'VREPRINT' | 'VDISCARD' | 'VWERASE'
  | 'VLNEXT' | 'VEOL2'; // prettier-ignore

/** Bytes of `c_cc`. */
export const CHARACTERS = 19;

export interface TerminalModel {
  readonly input: Readonly<Record<InputFlag, number>>;
  readonly output: Readonly<Record<OutputFlag, number>>;
  readonly control: Readonly<Record<ControlFlag, number>>;
  readonly local: Readonly<Record<LocalFlag, number>>;
  /** Places in `c_cc`. */
  readonly characters: Readonly<Record<SpecialCharacter, number>>;
  /** Where `c_line` and `c_cc` are, behind four words. */
  readonly lineAt: number;
  readonly charactersAt: number;
  /** Where the two speeds are; a structure without them ends there. */
  readonly speedAt: number;
  /** The structure of the plain requests has the speeds. */
  readonly hasSpeed: boolean;
}

export const GENERIC_TERMINAL: TerminalModel = {
  input: {
    ISTRIP: 0x20, INLCR: 0x40, IGNCR: 0x80, ICRNL: 0x100, IUCLC: 0x200, IXON: 0x400, IXANY: 0x800,
    IMAXBEL: 0x2000, IUTF8: 0x4000,
  },
  output: { OPOST: 1, OLCUC: 2, ONLCR: 4, OCRNL: 8, ONOCR: 0x10, ONLRET: 0x20, XTABS: 0x1800 },
  control: { CSIZE: 0x30, CS8: 0x30, CREAD: 0x80, PARENB: 0x100, B38400: 0xf },
  local: {
    ISIG: 1, ICANON: 2, ECHO: 8, ECHOE: 0x10, ECHOK: 0x20, ECHONL: 0x40, NOFLSH: 0x80,
    TOSTOP: 0x100, ECHOCTL: 0x200, ECHOKE: 0x800, IEXTEN: 0x8000,
  },
  characters: {
    VINTR: 0, VQUIT: 1, VERASE: 2, VKILL: 3, VEOF: 4, VTIME: 5, VMIN: 6, VSTART: 8, VSTOP: 9,
    VSUSP: 10, VEOL: 11, VREPRINT: 12, VDISCARD: 13, VWERASE: 14,
    VLNEXT: 15, VEOL2: 16,
  },
  lineAt: 16,
  charactersAt: 17,
  speedAt: 36,
  hasSpeed: false,
}; // prettier-ignore
