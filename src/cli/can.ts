/** `elftrace run --can IMAGE`: what of a program the emulator does not do, printed. */
import { canAll, canJson, canLines } from '../report/can.js';
import { scanProgram, type ScanRequest } from '../running/can.js';
import { exitCodes } from './exit.js';
import { out } from './terminal.js';

/** Prints what is not served; the exit code says whether all is. */
export function runCan(request: ScanRequest, json: boolean): number {
  const report = scanProgram(request);
  if (json) out(JSON.stringify(canJson(report)));
  else for (const line of canLines(report)) out(line);
  return canAll(report) ? exitCodes.ok : exitCodes.failed;
}
