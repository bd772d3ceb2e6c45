/* `./dev`: finds the tool for a command and runs it. Each tool is a file beside this one that exports `main(args)`. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { StepFailed } from './step.ts'

interface Tool {
  readonly file: string
  readonly usage: string
  readonly help: string
  /** Whether the tool answers `--help` itself. */
  readonly hasHelp?: true
}

const TOOLS: Record<string, Tool> = {
  demo: {
    file: 'demo.ts',
    usage: 'demo',
    help: 'boot a real microVM through the API, and see it live on when the daemon is killed',
    hasHelp: true,
  },
  try: {
    file: 'try.ts',
    usage: 'try [FILE…] [--watch]',
    help: 'what a change touches, in seconds: types, lint, and the tests that load it',
    hasHelp: true,
  },
  test: {
    file: 'test.ts',
    usage: 'test [WORD…]',
    help: 'everything: the check below, daemon and simulation tests, and host tests in the lab',
    hasHelp: true,
  },
  check: {
    file: 'check.ts',
    usage: 'check',
    help: 'the fast part, three to four minutes on two cores: types, lint, format, unit tests, plan cases',
  },
  lab: {
    file: 'lab.ts',
    usage: 'lab up|down|sh|status|run',
    help: 'a real host in a container: `./dev lab --help`',
    hasHelp: true,
  },
  bench: {
    file: 'bench.ts',
    usage: 'bench [NAME…] [--json FILE] [--figures]',
    help: 'the measured figures, each beside its reference',
    hasHelp: true,
  },
  images: {
    file: 'images.ts',
    usage: 'images',
    help: 'docs/images.md as written: make images as it says, and boot them; about a quarter of an hour',
    hasHelp: true,
  },
  build: {
    file: 'deb.ts',
    usage: 'build',
    help: 'dist/vmhostd (one executable, vmhostctl too) and its Debian package',
  },
  release: {
    file: 'release.ts',
    usage: 'release',
    help: 'dist/release: the package, what is in it, the OpenAPI documents, and clients for Go, Python and TypeScript',
  },
  types: {
    file: 'client-types.ts',
    usage: 'types',
    help: 'the types of the API client, for your editor; check, test and build see to them by themselves',
  },
  errors: {
    file: 'error-docs.ts',
    usage: 'errors',
    help: 'the tables of docs/errors.md, from the catalogue in src/core/problems/',
  },
  metrics: {
    file: 'metric-docs.ts',
    usage: 'metrics',
    help: 'the tables of docs/metrics.md, from the catalogue in src/core/metrics/',
  },
  fmt: { file: 'fmt.ts', usage: 'fmt', help: 'format the sources' },
}

function help(): string {
  const width = Math.max(...Object.values(TOOLS).map((tool) => tool.usage.length))
  const lines = Object.values(TOOLS).map((tool) => `  ./dev ${tool.usage.padEnd(width)}  ${tool.help}`)
  return [
    'vmhostd: a daemon that runs microVMs on one Linux host. This script does everything a contributor needs.',
    '',
    ...lines,
    '',
    'Start with `./dev demo`; after an edit run `./dev try`, before a commit `./dev check`, before a push `./dev test`. All need root on Debian or',
    'Ubuntu, say what they install, and keep what they build in /var/cache/vmhostd-dev (VMHOSTD_CACHE moves it).',
    '',
  ].join('\n')
}

async function main(argv: readonly string[]): Promise<number> {
  const [command = '--help', ...args] = argv
  if (['--help', '-h', 'help'].includes(command)) {
    process.stdout.write(help())
    return 0
  }
  const tool = TOOLS[command]
  const file = path.join(import.meta.dirname, tool?.file ?? '')
  if (tool === undefined || !existsSync(file)) {
    process.stderr.write(`dev: no command ${command}\n\n${help()}`)
    return 2
  }
  if (tool.hasHelp !== true && args.includes('--help')) {
    process.stdout.write(`./dev ${tool.usage}   ${tool.help}\n`)
    return 0
  }
  const loaded = (await import(file)) as { main: (args: readonly string[]) => Promise<number> }
  return loaded.main(args)
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  // A failed step has already reported its failure, with its log.
  if (!(error instanceof StepFailed))
    console.error(error instanceof Error ? (error.stack ?? error.message) : error)
  process.exitCode = 1
}
