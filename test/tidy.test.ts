/** Tests the rules of the house. Each failure says what to do instead. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { importedFiles, importsOf, readSources, SOURCE_FOLDERS } from '../tools/import-graph.ts'
import { checkout as root } from '../tools/paths.ts'
import type { Source } from '../tools/import-graph.ts'

const FILE_LINES_MAX = 400
const FUNCTION_LINES_MAX = 70

const sources = SOURCE_FOLDERS.flatMap(readSources)
const product = sources.filter(({ path }) => path.startsWith('src/') && !path.endsWith('.test.ts'))

/**
 * Allowed imports between rings; the first folder below src/ is the ring. An entry is a ring, a room or a file. Every
 * ring may import `config/limits.ts`, which holds only constants.
 */
const law: Record<string, readonly string[]> = {
  lib: ['lib'],
  core: ['core', 'lib'],
  ports: ['ports', 'core', 'lib/result.ts'],
  store: ['core', 'store', 'lib'],
  config: ['config', 'core', 'lib'],
  log: ['log', 'core', 'lib'],
  // Commands see one fact about the host: the capacity that was last observed.
  commands: ['commands', 'core', 'store', 'lib', 'ports/capacity.ts'],
  reconcile: ['reconcile', 'core', 'ports', 'store', 'log', 'lib'],
  owners: ['owners', 'core', 'ports', 'store', 'log', 'lib'],
  // What two hosts say to each other is described once, for both ends.
  host: ['host', 'ports', 'core', 'log', 'lib', 'api/wire'],
  api: ['api', 'commands', 'core', 'store', 'owners', 'log', 'lib'],
  // The words of the console's protocol are said once for both of its ends: its messages, its closes, its windows.
  client: ['client', 'core/console', 'lib'],
  // The catalogue of problems is data with the client's advice. It is there once: one executable has both programs.
  ctl: [
    ...['ctl', 'client', 'core/console', 'core/problems/catalogue.ts', 'log/error-chain.ts'],
    ...['log/scrub.ts', 'lib'],
  ],
  daemon: [
    'daemon',
    'api',
    'commands',
    'config',
    'core',
    'host',
    'lib',
    'log',
    'owners',
    'ports',
    'reconcile',
    'store',
  ],
  // Runs in a browser. No file imports it: it is bundled by itself.
  page: [
    'page',
    'client/console',
    'client/api-problem.ts',
    ...['client/cause-first.ts', 'client/vm-words.ts'],
    'client/connection-failed.ts',
    'client/schema.d.ts',
    'core',
    'lib',
  ],
  'executable.ts': [],
  'main.ts': ['daemon'],
  // The same code makes a terminal and a console's pty raw.
  'ctl-main.ts': ['ctl', 'daemon/build.ts', 'host/pty/open-pty.ts'],
}

test('a ring imports only what the law lets it', () => {
  for (const source of product) {
    const ring = source.path.split('/')[1] ?? ''
    const allowed = law[ring]
    assert.ok(
      allowed !== undefined,
      `${source.path}: src/${ring} is not a ring; put the file in one of ${Object.keys(law).join()}`,
    )
    for (const file of importedFiles(source)) {
      const path = relative('src', file)
      if (path === 'config/limits.ts') continue
      assert.ok(
        allowed.some((entry) => path === entry || path.startsWith(`${entry}/`)),
        `${source.path} may not import ${path}`,
      )
    }
  }
})

test('the room of the observed world imports no other room of core', () => {
  for (const source of product.filter(({ path }) => path.startsWith('src/core/world/'))) {
    for (const file of importedFiles(source)) {
      const [, ring, room, ...rest] = file.split('/')
      const isOther = ring === 'core' && rest.length > 0 && room !== 'world'
      assert.ok(!isOther, `${source.path} may not import ${file}: every other room builds on the world`)
    }
  }
})

test('no files import each other in a circle', () => {
  assertNoCircle(new Map(sources.map((source) => [source.path, importedFiles(source)])))
})

test('the rooms of a ring import each other in no circle', () => {
  const imports = new Map<string, Set<string>>()
  for (const source of product) {
    const from = roomOf(source.path)
    const to = importedFiles(source).filter((file) => ringOf(file) === ringOf(source.path))
    const rooms = imports.get(from) ?? new Set()
    for (const room of to.map(roomOf)) if (room !== from) rooms.add(room)
    imports.set(from, rooms)
  }
  assertNoCircle(imports)
})

const ringOf = (path: string): string => path.split('/')[1] ?? ''

/** Returns the folder below the ring; a file that stands beside the rooms is a room by itself. */
const roomOf = (path: string): string => path.split('/').slice(0, 3).join('/')

function assertNoCircle(imports: ReadonlyMap<string, Iterable<string>>): void {
  const done = new Set<string>()
  const follow = (one: string, way: readonly string[]): void => {
    const circle = [...way.slice(way.indexOf(one)), one]
    assert.ok(!way.includes(one), `a circle of imports: ${circle.join(' → ')}`)
    if (done.has(one)) return
    for (const next of imports.get(one) ?? []) follow(next, [...way, one])
    done.add(one)
  }
  for (const one of imports.keys()) follow(one, [])
}

test('the console client runs in Node and in a browser: it imports modules of neither', () => {
  const ours = product.filter(({ path }) => path.startsWith('src/client/console/'))
  assert.ok(ours.length > 0)
  for (const source of ours) {
    const { path, text } = source
    const foreign = importsOf(source)
      .map(({ module }) => module)
      .filter((target) => !target.startsWith('.'))
    assert.deepEqual(foreign, [], `${path}: take what it needs through Links or LinkTime`)
    const global = /\b(Buffer|WebSocket|setTimeout|setInterval|performance|document|location)\b[.(]/.exec(
      text,
    )
    assert.equal(global, null, `${path} uses ${global?.[1]}: take it through Links or LinkTime`)
  }
})

test('core is pure: no Node module, no await, no clock, no randomness', () => {
  for (const { path, text, lines } of product.filter((source) => source.path.startsWith('src/core/'))) {
    assert.doesNotMatch(
      text,
      /from 'node:/,
      `${path} imports a Node module: take what it needs as an argument`,
    )
    const impure = lines.findIndex((line) =>
      /\bawait\b|\bDate\.now\(|new Date\(\)|Math\.random\(|performance\./.test(line),
    )
    assert.equal(impure, -1, `${path}:${impure + 1} is not pure: take the value as an argument`)
  }
})

test('files and functions stay small', () => {
  const large: string[] = []
  for (const source of sources) {
    const { path, lines } = source
    if (lines.length > FILE_LINES_MAX)
      large.push(`${path}: ${lines.length} lines, at most ${FILE_LINES_MAX}: split the file`)
    for (const { line, length } of path.endsWith('.test.ts') ? [] : functionsOf(source)) {
      if (length > FUNCTION_LINES_MAX)
        large.push(`${path}:${line}: ${length} lines, at most ${FUNCTION_LINES_MAX}: split the function`)
    }
  }
  assert.deepEqual(large, [])
})

/** Finds functions and methods by their indentation, which the formatter guarantees. */
function* functionsOf({ lines }: Source): Generator<{ line: number; length: number }> {
  for (const [index, text] of lines.entries()) {
    const head =
      /^( *)(?:export )?(?:default )?(?:async )?(?:function\b|(?:static |get |set |async |override |\*)*#?\w+\()/.exec(
        text,
      )
    if (
      head === null ||
      !text.trimEnd().endsWith('{') ||
      /^ *(if|for|while|switch|test|describe|it)\b/.test(text)
    )
      continue
    const end = lines.findIndex((line, at) => at > index && line.startsWith(`${head[1]}}`))
    yield { line: index + 1, length: end - index + 1 }
  }
}

type Ban = { readonly pattern: RegExp; readonly instead: string; readonly except?: RegExp }

const bans: readonly Ban[] = [
  {
    pattern: /\.reveal\(\)/,
    instead: 'a secret is revealed only where it is used or stored',
    except: /^src\/(store|host\/(images|object-store)|(commands|core)\/outbound)\//,
  },
  {
    pattern: /\bprocess\.env\b/,
    instead: 'read configuration through src/config',
    except: /^(src\/daemon\/|src\/ctl-main|src\/host\/systemd\/|src\/host\/exec\/)/,
  },
  {
    pattern: /\bchild_process\b/,
    instead: 'run programs through src/host/exec',
  },
  {
    pattern: /from 'koffi'/,
    instead: 'foreign functions come through src/host/ffi',
    except: /^src\/host\/ffi\//,
  },
  {
    pattern: /from 'ssh2'/,
    instead: 'ssh2 is imported through src/host/ssh/ssh2.ts',
    except: /^src\/host\/ssh\/ssh2\.ts$/,
  },
  {
    pattern: /from 'commander'/,
    instead: 'command lines are read through src/ctl/command-line.ts',
    except: /^src\/ctl\/(command-line|completion\/complete)\.ts$/,
  },
  {
    pattern: /@jellybrick\/dbus-next/,
    instead: 'D-Bus is spoken through src/host/systemd/bus.ts',
    except: /^src\/host\/systemd\/bus/,
  },
  {
    pattern: /\bconsole\.(log|error|warn|info)\(/,
    instead: 'use the logger',
    except: /^src\/(main|daemon\/)/,
  },
  { pattern: /\benum\s+\w+\s*\{|\bnamespace\s+\w+\s*\{/, instead: 'unions and modules' },
  {
    pattern: /(?<![.\w])(set|clear)(Timeout|Interval)\(/,
    instead: 'take the Clock port',
    except: /^src\/(host|daemon|api|page|ctl-main)/,
  },
  {
    pattern: /\bnew HostFault\(/,
    instead: 'faults are made by drivers',
    except: /^src\/(host|reconcile\/run-step|reconcile\/steps\/(start-unit|steps))/,
  },
  {
    pattern: /from 'node:fs\/promises'/,
    instead: 'files of the pool are used through src/host/files/pool-files.ts, whose calls are bounded',
    except:
      /^src\/(?!host\/(disks|files|images|pool|rounds|saved|staging|storage)\/)|^src\/host\/files\/gated-files?\.ts$/,
  },
  {
    pattern: /\bwatch(File)?\b.* from 'node:fs'/,
    instead: 'look again after a delay: a program that makes changes without end would stop the event loop',
  },
  { pattern: /@ts-(ignore|expect-error|nocheck)|\bas any\b|: any\b/, instead: 'types that hold' },
  {
    // Scrubbing alone suffices for text that a viewer or a client wrote, and for text that root on this host reads.
    pattern: /from '.*\/log\/scrub\.ts'/,
    instead: 'text for the controller passes shownText of src/api/wire/values.ts',
    except:
      /^src\/(log|api\/wire\/values|api\/console\/viewer-message|api\/listener\/access-log|reconcile\/explain|ctl\/(advice|run))/,
  },
  { pattern: /\b(TODO|FIXME|XXX|HACK)\b/, instead: 'do it, or write it down in docs/' },
]

test('banned calls stay out, and the failure names their replacement', () => {
  for (const { path, lines } of product) {
    for (const { pattern, instead, except } of bans) {
      if (except?.test(path) === true) continue
      const at = lines.findIndex((line) => pattern.test(line))
      assert.equal(at, -1, `${path}:${at + 1} has ${pattern.source}: ${instead}`)
    }
  }
})

test('names describe their subject', () => {
  const empty = /(Manager|Helper|Util|Utils|Service|Base|Impl|Info|Data)\b/
  for (const { path, text } of product) {
    assert.match(path, /^src\/([a-z0-9.-]+\/)*[a-z0-9.-]+\.ts$/, `${path}: file names are kebab-case`)
    for (const [, name = ''] of text.matchAll(
      /^export (?:abstract )?(?:class|type|interface|const|function) (\w+)/gm,
    )) {
      assert.doesNotMatch(name, empty, `${path} exports ${name}: name it after what it is`)
    }
  }
})

test('every limit is used', () => {
  const files = product.filter(({ path }) => /^src\/config\/([a-z]+-)?limits\.ts$/.test(path))
  const main = files.find(({ path }) => path === 'src/config/limits.ts')?.text ?? ''
  const parts = [...main.matchAll(/from '\.\/([a-z]+-limits\.ts)'/g)].map(([, name]) => `src/config/${name}`)
  assert.deepEqual(files.map(({ path }) => path).toSorted(), ['src/config/limits.ts', ...parts].toSorted())
  const text = files.map((file) => file.text).join('')
  for (const [, name = ''] of text.matchAll(/^ {2}(\w+):/gm)) {
    const used = sources.some((source) => source.text.includes(`limits.${name}`))
    assert.ok(used, `limits.${name} bounds nothing: use it or remove it`)
  }
})

test('a host test undoes its changes with atEnd, which one failure does not stop', () => {
  for (const { path, lines } of sources.filter((source) => source.path.startsWith('test/host/'))) {
    const at = lines.findIndex((line) => /\bt\.after\(/.test(line))
    assert.equal(at, -1, `${path}:${at + 1} has t.after: use atEnd of test/contract/at-end.ts`)
  }
})

test('tests that share a host get it back after each failure, and leave no VM to the next file', () => {
  for (const { path, text } of sources.filter((source) => /^test\/host\/.*\.test\.ts$/.test(source.path))) {
    if (!/\/lab\/inside\/controller\.ts'/.test(text)) continue
    assert.doesNotMatch(text, /^\s*before\(/m, `${path} makes what its tests share: use sharedHost`)
    assert.match(text, /\b(sharedHost|sleeperOfTests|snapshotStage)\(/, `${path} uses no sharedHost`)
  }
})

test('no lockfile line names a registry', () => {
  assert.doesNotMatch(readFileSync(join(root, 'package-lock.json'), 'utf8'), /"resolved"\s*:\s*"https?:/)
})

/** Words that a reader has to read twice, with what to write instead. */
const unplain: readonly { readonly pattern: RegExp; readonly instead: string }[] = [
  { pattern: /\bshall\b/i, instead: 'must, should or will' },
  { pattern: /\banew\b/i, instead: 'again' },
  { pattern: /\bwhoever\b/i, instead: 'a named subject' },
  // Linux has a user of that name, and tests have ids of that name.
  {
    pattern: /(?<!["'`=/_]|VM |user )\bnobody\b(?!`)/,
    instead: 'a named subject: no VM, no viewer, no program',
  },
  { pattern: /\bmend(s|ed|ing)?\b/i, instead: 'fix or repair' },
  { pattern: /\b(tell|tells|told)\b/i, instead: 'report, say, show or notify' },
  { pattern: /(?<!\bthere )\b(is|was) no (?!longer\b|more\b|such\b|guest\b|pass\b)\w/i, instead: 'is not a' },
]

const HEADER_LINES = { min: 8, max: 40 }

/** Every folder with code of the product; `src` itself has only the entry files. */
const rooms = [...new Set(product.map(({ path }) => dirname(path)))].filter((room) => room !== 'src')

/** Returns the files and folders that a header names in backticks or links to; a word alone is not a path. */
const pathsIn = (markdown: string): string[] =>
  [...markdown.matchAll(/`((?:src|test|docs)\/[\w./-]+|[\w./-]+\.(?:ts|txt|toml))`|\]\(([^)#]+)/g)].map(
    (match) => match[1] ?? match[2] ?? '',
  )

test('each room has a header, and the files that it names exist', () => {
  for (const room of rooms) {
    const path = join(root, room, 'README.md')
    const { min, max } = HEADER_LINES
    const ask = `say in ${min} to ${max} lines what the room owns, what it may assume, and where to start reading`
    assert.ok(existsSync(path), `${room} has no README.md: ${ask}`)
    const text = readFileSync(path, 'utf8')
    const lines = text.trimEnd().split('\n').length
    assert.ok(lines >= min && lines <= max, `${room}/README.md has ${lines} lines: ${ask}`)
    for (const name of pathsIn(text)) {
      const exists = existsSync(join(root, room, name)) || existsSync(join(root, name))
      assert.ok(exists, `${room}/README.md names ${name}, which is neither in the room nor in the checkout`)
    }
  }
})

test('documents are in plain words', () => {
  const documents = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.md'),
  )
  const paths = [
    ...documents.map((name) => `docs/${name}`),
    ...rooms.map((room) => `${room}/README.md`),
    ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md'],
  ]
  for (const path of paths) {
    const lines = readFileSync(join(root, path), 'utf8').split('\n')
    for (const { pattern, instead } of unplain) {
      const at = lines.findIndex((line) => pattern.test(line))
      assert.equal(at, -1, `${path}:${at + 1} has ${pattern.source}: write ${instead}`)
    }
  }
})

test('names, comments and texts are in plain words, and docstrings begin with a verb or a noun', () => {
  // The list of words itself is in this file.
  for (const { path, lines } of sources.filter((source) => source.path !== 'test/tidy.test.ts')) {
    for (const [index, line] of lines.entries()) {
      const place = `${path}:${index + 1}`
      for (const { pattern, instead } of unplain)
        assert.doesNotMatch(line, pattern, `${place}: write ${instead}`)
      assert.doesNotMatch(
        line,
        /\/\*\*\s+(Of|What|Who|Whose|One that)\b/,
        `${place}: begin with a verb or a noun`,
      )
    }
  }
})
