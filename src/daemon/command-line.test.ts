import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { loadedFirst, readSources } from '../../tools/import-graph.ts'
import type { TestContext } from 'node:test'

const MAIN = new URL('../main.ts', import.meta.url).pathname

const vmhostd = (...args: string[]) =>
  spawnSync(process.execPath, ['--no-warnings', MAIN, ...args], { encoding: 'utf8' })

test('--version says what version says', () => {
  const [option, command] = [vmhostd('--version'), vmhostd('version')]
  assert.match(command.stdout, /^vmhostd \d/)
  assert.deepEqual([option.stdout, option.status], [command.stdout, command.status])
})

test('a command that is not there is refused with the usage', () => {
  const { status, stderr } = vmhostd('--versions')
  assert.equal(status, 2)
  assert.match(stderr, /^vmhostd: there is no command --versions\n/)
})

const COMMANDS = [
  ...[
    'serve',
    'setup',
    'certificate renew',
    'certificate issue anna',
    'plan web-1',
    'console web-1',
    'doctor',
  ],
  ...['backup file', 'restore file', 'recover web-1', 'version', '--version'],
]

for (const command of COMMANDS) {
  test(`a mistyped option of ${command} is wrong usage, and the answer is a line that names the help`, () => {
    const words = command.split(' ')
    for (const [options, reason] of [
      [['--confg', '/etc/x.toml'], "Unknown option '--confg'"],
      [['--help=yes'], "Option '-h, --help' does not take an argument"],
    ] as const) {
      const { status, stdout, stderr } = vmhostd(...words, ...options)
      assert.equal(stderr, `vmhostd ${words[0]}: ${reason}. Try: vmhostd ${words[0]} --help\n`)
      assert.deepEqual([status, stdout], [2, ''])
    }
  })
}

test('a daemon whose configuration cannot be read says why, and names set-up only if there is none', () => {
  const isDirectory = vmhostd('serve', '--config', '/etc')
  assert.equal(isDirectory.status, 1)
  assert.match(isDirectory.stderr, /^\/etc cannot be read: EISDIR: [^\n]*\n$/)
  const missing = vmhostd('serve', '--config', '/nonexistent/config.toml')
  assert.equal(missing.status, 1)
  const advice = '"vmhostd setup" writes one to start from'
  assert.equal(missing.stderr, `/nonexistent/config.toml is not there: ${advice}\n`)
})

test('operands that a command does not take, or takes otherwise, are wrong usage too', () => {
  const cases: readonly (readonly [argv: readonly string[], reason: string])[] = [
    [['serve', 'now'], "Unexpected argument 'now'"],
    [['restore'], 'name one file'],
    [['restore', 'file', '--end', 'Web'], 'Web is not a VM id'],
    [['recover', 'web-1', 'web-2'], 'name one VM'],
  ]
  for (const [argv, reason] of cases) {
    const { status, stderr } = vmhostd(...argv)
    assert.equal(stderr, `vmhostd ${argv[0]}: ${reason}. Try: vmhostd ${argv[0]} --help\n`)
    assert.equal(status, 2)
  }
})

test('a reader that has read enough of the output of a VM is not a failure', async (t) => {
  const directory = mkdtempSync('/run/vh-')
  const config = join(directory, 'config.toml')
  writeFileSync(config, `run_directory = "${directory}"\n`)
  const daemon = createServer((_, response) => response.end('login: '.repeat(20_000)))
  daemon.listen(join(directory, 'admin.sock'))
  await once(daemon, 'listening')
  t.after(() => {
    daemon.close()
    rmSync(directory, { recursive: true })
  })
  const child = spawn(process.execPath, ['--no-warnings', MAIN, 'console', 'web-1', '--config', config])
  child.stdout.destroy()
  const [end, stderr] = await Promise.all([once(child, 'exit'), text(child.stderr)])
  assert.deepEqual([end, stderr], [[0, null], ''])
})

test('a daemon that cannot start ends, also if a part of it is open', () => {
  const open = 'data:text/javascript,setInterval(() => {}, 1000)'
  const { status } = spawnSync(
    process.execPath,
    ['--import', open, MAIN, 'serve', '--config', '/nonexistent/config.toml'],
    { timeout: 20_000, killSignal: 'SIGKILL' },
  )
  assert.equal(status, 1)
})

/** Returns the output of `vmhostd serve` when its output is the journal, which systemd announces in JOURNAL_STREAM. */
function served(
  t: TestContext,
  config: string,
  options: readonly string[] = [],
): { readonly status: number | null; readonly journal: string } {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-serve-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const [path, file] = [join(directory, 'journal'), join(directory, 'config.toml')]
  writeFileSync(file, config)
  const journal = openSync(path, 'w')
  const { dev, ino } = statSync(path)
  const { status } = spawnSync(process.execPath, [...options, MAIN, 'serve', '--config', file], {
    stdio: ['ignore', journal, journal],
    env: { ...process.env, JOURNAL_STREAM: `${dev}:${ino}` },
  })
  return { status, journal: readFileSync(path, 'utf8') }
}

const CONFIGS = {
  'that cannot be read': ['[controller\n', /config\.toml/],
  'with a key that is not there': ['no_such_key = 1\n', /no_such_key/],
  'that leads to no certificates': [
    '[controller]\nca_file = "/proc/vmhostd/ca.crt"\n',
    /ca\.crt cannot be read/,
  ],
} as const

for (const [which, [config, reason]] of Object.entries(CONFIGS)) {
  test(`in the journal, a daemon with a configuration ${which} says in JSON why it cannot start`, (t) => {
    const { status, journal } = served(t, config)
    assert.equal(status, 1)
    const lines = journal
      .trimEnd()
      .split('\n')
      .map((line) => {
        assert.match(line, /^<\d>\{/)
        return JSON.parse(line.slice(3)) as Record<string, unknown>
      })
    const last = lines.at(-1) ?? {}
    assert.deepEqual([last['level'], last['message']], ['error', 'vmhostd cannot start'])
    assert.match(String(last['reason']), reason)
  })
}

test('in the journal, a warning of Node is a line in JSON too', (t) => {
  // The daemon listens for errors right after it listens for warnings.
  const emit = "if (name === 'uncaughtException') process.emit('warning', new Error('mind the gap'))"
  const warn = `process.on('newListener', (name) => { ${emit} })`
  const { journal } = served(t, CONFIGS['that cannot be read'][0], [
    '--import',
    `data:text/javascript,${warn}`,
  ])
  const lines = journal.trimEnd().split('\n')
  for (const line of lines) assert.match(line, /^<\d>\{/)
  assert.ok(lines.some((line) => line.includes('"message":"mind the gap"')))
})

test('a start of the daemon does not load the library of SSH: most hosts never open a shell', () => {
  const byPath = new Map(readSources('src').map((source) => [source.path, source]))
  const loaded = new Set(['src/daemon/serve-command.ts'])
  for (const path of loaded) {
    const source = byPath.get(path)
    if (source !== undefined) for (const file of loadedFirst(source)) loaded.add(file)
  }
  assert.ok(loaded.has('src/host/ssh/ssh-shells.ts'))
  assert.ok(!loaded.has('src/host/ssh/ssh2.ts'), 'import it, or what imports it, where a shell is opened')
})
