/** Verbs that read and change files, with their words and options. Each is loaded when it runs. */
import { DeclaredVerbs } from './declared.js';
import { machineOptionsIn, machineOptionsOf } from './machine-options.js';
import {
  common,
  selection,
  output,
  percent,
  jobs,
  inputName,
  verifyFormats,
  verifyFormat,
  requests,
  tracers,
  filesFrom,
  planLimits,
  patchForms,
} from './options.js';

export const fileVerbs = new DeclaredVerbs()
  .command(
    'info <files..>',
    'what a file is, its site tables and sites',
    (y) =>
      common(y.positional('files', { type: 'string', array: true, demandOption: true })).example(
        '$0 info ext4.ko',
        'tables, shapes and states of a module',
      ),
    async (args) => (await import('./info.js')).runInfo({ ...args }),
  )
  .command(
    'list <path>',
    'traceable functions, one per line',
    (y) =>
      selection(common(y.positional('path', { type: 'string', demandOption: true }))).example(
        "$0 list vmlinux -l 'schedule*'",
        'the functions that the filter matches',
      ),
    async (args) => (await import('./list.js')).runList({ ...args }),
  )
  .command(
    'verify [files..]',
    'a verdict per site; nothing to verify is a failure; - is standard input',
    (y) =>
      filesFrom(common(y.positional('files', { type: 'string', array: true, default: [] })))
        .option('format', {
          type: 'string',
          choices: verifyFormats,
          describe: 'what to print; --json is --format json',
        })
        .option('against', {
          type: 'string',
          array: true,
          nargs: 1,
          describe: 'kernel, module or folder of modules that livepatch modules patch',
        })
        .option('baseline', { type: 'string', describe: 'earlier --json or ndjson output: only what is new fails' })
        .option('skip', { type: 'string', array: true, nargs: 1, describe: 'verdict or rule that is left out' })
        .option('severity', { type: 'string', describe: 'JSON file: how much rules weigh' })
        .option('strict', { type: 'boolean', default: false, describe: 'fail on warnings too' })
        .option('quiet', { type: 'boolean', default: false, describe: 'one line per file' })
        .option('require', { type: 'number', coerce: percent, describe: 'fail below this percentage of good sites' })
        .option('expect', {
          type: 'string',
          choices: ['kernel', 'user'] as const,
          describe: 'what each file must be of: another one is a failure',
        })
        .option('jobs', {
          type: 'number',
          default: 0,
          coerce: jobs,
          describe: 'files at the same time; 0 (default): one per processor where there is work for seconds',
        })
        .option('system-unpack', {
          type: 'boolean',
          default: true,
          describe: 'let gzip, xz and zstd of the system unpack where there are many files',
        })
        .example('$0 verify /lib/modules/6.1.0/kernel', 'every module of a kernel'),
    async (args) => {
      const format = verifyFormat(args.format, args.json);
      return (await import('./verify.js')).runVerify({ ...args, format, filesFrom: args.filesFrom?.map(inputName) });
    },
  )
  .command(
    'diff <old> <new>',
    'functions that two files or trees of them can trace: lost, gained, moved, changed',
    (y) =>
      y
        .positional('old', { type: 'string', demandOption: true, describe: 'file, archive, package or directory' })
        .positional('new', { type: 'string', demandOption: true, describe: 'what it is compared with' })
        .option('fail-on', {
          choices: ['lost', 'gained', 'moved', 'changed', 'any'] as const,
          array: true,
          nargs: 1,
          default: [],
          describe: 'fail where there is such a difference',
        })
        .option('old-symbols', {
          type: 'string',
          describe: 'names for a stripped old file: System.map or an ELF file',
        })
        .option('new-symbols', { type: 'string', describe: 'the same for the new file' })
        .option('mcount', { type: 'string', array: true, nargs: 1, describe: 'further name of the profiling entry' })
        .option('table', { type: 'string', array: true, nargs: 1, describe: 'section that holds the site table' })
        .option('quiet', { type: 'boolean', default: false, describe: 'one line per pair of files' })
        .option('system-unpack', {
          type: 'boolean',
          default: true,
          describe: 'let gzip, xz and zstd of the system unpack where there are many files',
        })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 diff --fail-on lost old/ext4.ko new/ext4.ko', 'what tracers of the old one will miss'),
    async (args) => (await import('./diff.js')).runDiff({ ...args }),
  )
  .command(
    'load <path> [modules..]',
    'core and modules in one address space, far apart, with stubs',
    (y) =>
      y
        .positional('path', { type: 'string', demandOption: true, describe: 'core, or an image to add to' })
        .positional('modules', { type: 'string', array: true, default: [] as string[] })
        .option('o', { alias: 'output', type: 'string', describe: 'image to write' })
        .option('base', { type: 'string', describe: 'user, kernel, or the address of the core' })
        .option('module-base', { type: 'string', describe: 'address of the first module' })
        .option('entry', { type: 'string', describe: 'symbol to start at instead of _start' })
        .option('runtime', { type: 'string', describe: "object with the tracer's entries; none: leave it out" })
        .option('probes', { type: 'number', describe: 'room for so many probes of patch --probe' })
        .options(machineOptionsOf('load'))
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 load core.o driver.ko -o image', 'a module 256 MB from its core'),
    async (args) =>
      (await import('./load.js')).runLoad({
        ...args,
        output: args.o,
        machine: machineOptionsIn(args),
      }),
  )
  .command(
    'unload <path> <part>',
    'a loaded image without one of its modules',
    (y) =>
      y
        .positional('path', { type: 'string', demandOption: true })
        .positional('part', {
          type: 'string',
          demandOption: true,
          describe: 'name of the module, or of a linked core',
        })
        .option('o', { alias: 'output', type: 'string', describe: 'file to write' })
        .option('in-place', { type: 'boolean', default: false, describe: 'change the file itself' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 unload image driver -o smaller', 'the module is gone, the rest stays where it was'),
    async (args) => (await import('./unload.js')).runUnload({ ...args, output: args.o }),
  )
  .command(
    'unwrap <path>',
    'the ELF file inside of a vmlinuz, bzImage, zImage or compressed file',
    (y) =>
      y
        .positional('path', { type: 'string', demandOption: true })
        .option('o', { alias: 'output', type: 'string', describe: 'file to write' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 unwrap /boot/vmlinuz -o vmlinux', 'what patch and its like work on'),
    async (args) => (await import('./unwrap.js')).runUnwrap({ ...args, output: args.o }),
  )
  .command(
    ['patch [path]', 'plan'],
    'turn call sites into nops, or into calls of a tracer; plan: decide it, for apply',
    (y) =>
      patchForms(
        planLimits(tracers(requests(output(selection(common(filesFrom(y.positional('path', { type: 'string' })))))))),
      )
        .showHidden('forms', 'with --help: options of single machines, and limits, too')
        .example('$0 patch ext4.ko --untrace -o quiet.ko', 'a module that no tracer sees'),
    async (args) => {
      const request = {
        ...args,
        output: args.o,
        planOnly: args._[0] === 'plan',
        machine: machineOptionsIn(args),
      };
      const filesFrom = args.filesFrom?.map(inputName);
      return filesFrom === undefined
        ? (await import('./patch.js')).runPatch(request)
        : (await import('./patch-many.js')).runPatchMany({ ...request, filesFrom });
    },
  )
  .command(
    'apply <path> <plan>',
    'carry out a plan that was made before',
    (y) =>
      output(
        y
          .positional('path', { type: 'string', demandOption: true })
          .positional('plan', { type: 'string', demandOption: true, describe: 'file that plan wrote' }),
      )
        .option('partial', { type: 'boolean', default: false, describe: 'leave refused sites as they are' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 plan ext4.ko --nop -o p.json && $0 apply ext4.ko p.json -o quiet.ko', 'patch in two steps'),
    async (args) => (await import('./apply.js')).runApply({ ...args, output: args.o }),
  )
  .command(
    'revert <path>',
    'a patched file as it was, byte for byte, as its record says',
    (y) =>
      output(y.positional('path', { type: 'string', demandOption: true }))
        .option('journal', { type: 'string', describe: 'record of the changes kept beside the file' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 revert quiet.ko -o ext4.ko', 'undo a patch'),
    async (args) => (await import('./revert.js')).runRevert({ ...args, output: args.o }),
  )
  .command(
    'status <path>',
    'what is enabled now, and what the record says',
    (y) =>
      selection(common(y.positional('path', { type: 'string', demandOption: true })))
        .option('touched', { type: 'boolean', default: false, describe: 'sessions: what was ever enabled' })
        .option('ops', {
          type: 'boolean',
          default: false,
          describe: "the tracers' objects with their raw flags, too",
        })
        .example('$0 status quiet.ko', 'states of the sites and the record'),
    async (args) => (await import('./status.js')).runStatus({ ...args }),
  )
  .command(
    'mcount <path>',
    'make the __mcount_loc table that the compiler did not, or sort that of a linked file',
    (y) =>
      output(common(y.positional('path', { type: 'string', demandOption: true })))
        .option('sort', { type: 'boolean', default: true, describe: 'entries in ascending order' })
        .option('nop-untraced', {
          type: 'boolean',
          default: false,
          describe: 'nop calls in sections that are not traced',
        })
        .option('zero-weak', {
          type: 'boolean',
          default: false,
          describe: 'linked files: empty slots of overridden weak functions',
        })
        .option('repair', {
          type: 'boolean',
          default: false,
          describe: 'objects: a table for each section of code, with a slot for every function, that is linked with it',
        })
        .example('$0 mcount --repair a.o --in-place', 'what a link would lose otherwise')
        .example('$0 mcount driver.o -o driver.mc.o', 'a PowerPC object with its table'),
    async (args) => (await import('./mcount.js')).runMcount({ ...args, output: args.o }),
  )
  .command(
    'xray <path>',
    'sleds of XRay: list and verify them, switch them on and off in a linked file',
    (y) =>
      output(selection(common(y.positional('path', { type: 'string', demandOption: true }))))
        .option('on', { type: 'boolean', default: false, describe: 'switch sleds on' })
        .option('off', { type: 'boolean', default: false, describe: 'switch sleds off' })
        .option('entry', { type: 'string', describe: 'trampoline of entries (__xray_FunctionEntry)' })
        .option('exit', { type: 'string', describe: 'trampoline of exits (__xray_FunctionExit)' })
        .option('tail', { type: 'string', describe: 'trampoline of tail calls (__xray_FunctionTailExit)' })
        .option('entry-args', {
          type: 'string',
          describe: 'trampoline of entries with arguments (__xray_ArgLoggerEntry)',
        })
        .option('partial', { type: 'boolean', default: false, describe: 'leave refused sleds as they are' })
        .example('$0 xray program', 'each sled, its function, its state')
        .example('$0 xray program --on -l main -o program.on', 'calls of the trampolines that the program has'),
    async (args) => {
      const { entry, exit, tail, entryArgs } = args;
      const trampolines = {
        ...(entry === undefined ? {} : { entry }),
        ...(exit === undefined ? {} : { exit }),
        ...(tail === undefined ? {} : { tail }),
        ...(entryArgs === undefined ? {} : { 'entry-args': entryArgs }),
      };
      return (await import('./xray.js')).runXray({ ...args, trampolines, output: args.o });
    },
  )
  .command(
    'prove <patched> [original]',
    'executes each patched site against its original, from random states',
    (y) =>
      common(
        y
          .positional('patched', {
            type: 'string',
            demandOption: true,
            describe: 'linked or relocatable file, or image of load',
          })
          .positional('original', { type: 'string', describe: 'as it was; default: what its record says' }),
      )
        .option('seed', { type: 'number', describe: 'of the states (1); the same gives the same proof' })
        .option('trials', { type: 'number', describe: 'of each site, at least (2)' })
        .option('sample', {
          type: 'number',
          describe: 'so many of the sites only; then nothing is proved as a whole',
        })
        .option('certificate', {
          type: 'string',
          requiresArg: true,
          describe: 'write the proof down: an in-toto statement (schemas/certificate.schema.json)',
        })
        .option('check', {
          type: 'string',
          requiresArg: true,
          describe: 'repeat the proof of this certificate: any difference is exit 1',
        })
        .option('all', { type: 'boolean', default: false, describe: 'list the sites that are proved, too' })
        .option('jobs', {
          type: 'number',
          default: 0,
          coerce: jobs,
          describe: 'threads; 0 (default): one per processor where there are many sites',
        })
        .example('$0 prove traced', 'against what the record of the file says')
        .example('$0 prove vmlinux.off vmlinux', 'against another file')
        .example('$0 prove --check traced.json traced', 'the proof of a certificate, once more'),
    async (args) => (await import('./prove.js')).runProve({ ...args }),
  )
  .command(
    'disasm <path> <functions..>',
    'code with its sites and relocations named',
    (y) =>
      common(
        y
          .positional('path', { type: 'string', demandOption: true })
          .positional('functions', { type: 'string', array: true, demandOption: true }),
      ).example('$0 disasm ext4.ko ext4_sync_fs', 'one function'),
    async (args) => (await import('./disasm.js')).runDisasm({ ...args }),
  )
  .command(
    'explain <path> [site]',
    'why a site looks as it does, hop by hop; or the page of a verdict',
    (y) =>
      common(
        y
          .positional('path', { type: 'string', demandOption: true, describe: 'image, or a verdict' })
          .positional('site', {
            type: 'string',
            describe: 'FUNCTION, FUNCTION+0xOFFSET, SECTION+0xOFFSET or 0xADDRESS',
          }),
      )
        .example('$0 explain image far_work', 'call, stub, slot and target of one site')
        .example('$0 explain stub-wrong-target', 'what the verdict means'),
    async (args) => (await import('./explain.js')).runExplain({ ...args }),
  )
  .command(
    'html [files..]',
    'one page about images: verdicts, code, ways, a map; traces, differences, races',
    (y) =>
      y
        .positional('files', {
          type: 'string',
          array: true,
          default: [],
          describe: 'files, archives, directories',
        })
        .option('o', { alias: 'output', type: 'string', describe: 'page to write' })
        .option('trace', { type: 'string', describe: 'what run --trace wrote as ndjson: timeline and flame graph' })
        .option('prove', { type: 'string', describe: 'what prove --json wrote of the one file' })
        .option('diff', { type: 'string', describe: 'older file or tree: what became of its sites' })
        .option('race', {
          type: 'string',
          array: true,
          nargs: 1,
          describe: 'what race --json wrote: schedules step by step; needs no file',
        })
        .option('title', { type: 'string', describe: 'heading of the page' })
        .option('symbols', { type: 'string', describe: 'names for a stripped file: System.map or an ELF file' })
        .option('old-symbols', { type: 'string', describe: 'names for a stripped file of --diff' })
        .option('mcount', { type: 'string', array: true, nargs: 1, describe: 'further name of the profiling entry' })
        .option('table', { type: 'string', array: true, nargs: 1, describe: 'section that holds the site table' })
        .option('journal', { type: 'string', describe: 'record of the changes kept beside the file' })
        .option('json', { type: 'boolean', default: false, describe: 'print JSON' })
        .example('$0 html vmlinux -o page.html', 'every site of a kernel, in a browser')
        .example('$0 html traced --trace t.ndjson --diff original -o page.html', 'a patched program and its run')
        .example('$0 html --race story.json -o page.html', 'what race --json wrote, step by step'),
    async (args) => (await import('./html.js')).runHtml({ ...args, output: args.o }),
  )
  .command(
    'why <function> <files..>',
    'whether a function can be traced by ftrace, kprobes, fentry; if not, why',
    (y) =>
      common(
        y
          .positional('function', { type: 'string', demandOption: true, describe: 'name of a function' })
          .positional('files', {
            type: 'string',
            array: true,
            demandOption: true,
            describe: 'kernel, modules, objects',
          }),
      )
        .option('by', {
          choices: ['ftrace', 'kprobe', 'fentry'] as const,
          array: true,
          nargs: 1,
          default: ['ftrace' as const],
          describe: 'what must be possible for status 0',
        })
        .option('system-unpack', {
          type: 'boolean',
          default: true,
          describe: 'let gzip, xz and zstd of the system unpack where there are many files',
        })
        .example('$0 why ext4_sync_fs vmlinux ext4.ko', 'BTF of a module goes on where that of its kernel ends'),
    async (args) => (await import('./why.js')).runWhy({ ...args }),
  );
