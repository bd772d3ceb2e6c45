import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readCommandLine } from '../../src/ctl/command-line.ts'
import { commands } from '../../src/ctl/commands.ts'
import { exitStatus } from '../../src/ctl/exit-status.ts'
import { ctl } from './support/ctl-stage.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
const page = read('docs/vmhostctl.md')

test('the overview, each group and each command have help that fits a terminal', async () => {
  const calls = [[], ['vm'], ['snapshot'], ...commands.map(({ words }) => words)]
  for (const words of calls) {
    const { status, out, err } = await ctl([...words, '--help'])
    assert.deepEqual({ words, status, err }, { words, status: 0, err: '' })
    assert.match(out, /Usage: vmhostctl /)
    const [text = ''] = out.split('\nExamples:', 1)
    for (const line of text.split('\n')) assert.ok(line.length <= 115, `${words.join(' ')}: ${line}`)
  }
})

test('the overview and the documentation name the commands that wait without --wait', async () => {
  const { out } = await ctl(['--help'])
  const [, said = ''] = /^(vm migrate .* always wait)\b/m.exec(out) ?? []
  const [, written = ''] = /Only (.* always wait)\b/.exec(page.replaceAll('\n', ' ')) ?? []
  const waiting = commands.filter(({ words, options }) => {
    const names = options.map(({ name }) => name)
    return names.includes('timeout') && !names.includes('wait') && words.at(-1) !== 'wait'
  })
  const names = waiting.map(({ words }) => words.join(' '))
  assert.equal(said, `${names.join(' and ')} always wait`)
  assert.equal(written.replaceAll('`', ''), said)
})

/** Help would be written here. */
const NOWHERE = { write() {}, isTty: false, columns: 0 }

test('every example of the help is a valid command line', () => {
  for (const command of commands) {
    assert.ok(command.examples.length > 0, command.words.join(' '))
    for (const [line] of command.examples) {
      // Up to the operator at which the shell takes over.
      const [own = ''] = line.split(/ ?[|>]| </, 1)
      const typed = [...command.words, ...own.split(' ').filter(Boolean)]
      assert.equal(readCommandLine(typed, commands, NOWHERE)?.command, command)
    }
  }
})

test('the documentation has every command, every option and every exit status', () => {
  for (const { words, options } of commands) {
    const command = `vmhostctl ${words.join(' ')}`
    assert.ok(page.includes(command), `docs/vmhostctl.md does not name "${command}"`)
    for (const { name } of options)
      assert.ok(page.includes(`--${name}`), `docs/vmhostctl.md does not name --${name} of "${command}"`)
  }
  const rows = [...page.matchAll(/^\| (\d) \|/gm)].map(([, status]) => Number(status))
  assert.deepEqual(rows, Object.values(exitStatus))
})

/**
 * Commands that a text has for its reader to type, up to where a shell takes over or the text leaves something open.
 */
function typedIn(text: string): readonly string[] {
  const blocks = [...text.matchAll(/^```.*\n([\s\S]*?)^```/gm)].map(([, block = '']) =>
    block.replaceAll('\\\n', ' '),
  )
  const lines = blocks.flatMap((block) => [...block.matchAll(/^(?:# )?vmhostctl (.*)/gm)])
  return lines
    .flatMap(([, line = '']) => line.split(/ +[|>;#<]| && |;/, 1))
    .filter((line) => !line.includes('…'))
}

const words = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain = '']) => quoted ?? plain)

test('every line of the documentation that calls vmhostctl is a valid command line', () => {
  const files = ['README.md', ...globSync('docs/*.md', { cwd: ROOT })]
  const lines = files.flatMap((file) => typedIn(read(file)).map((line) => [file, line] as const))
  assert.ok(lines.length > 40, `${lines.length} lines`)
  for (const [file, line] of lines)
    assert.doesNotThrow(() => readCommandLine(words(line), commands, NOWHERE), `${file}: vmhostctl ${line}`)
})

test('every command that a text, an advice or the configuration names is there', () => {
  const files = [
    'README.md',
    'src/config/config.example.toml',
    ...globSync('{docs/*.md,src/core/problems/*.ts}', { cwd: ROOT }),
  ]
  const known = new Set(commands.flatMap((command) => [command.words.join(' '), command.words[0]]))
  for (const file of files) {
    for (const [, first = '', second] of read(file).matchAll(/[`'"]vmhostctl ([a-z-]+)(?: ([a-z-]+))?/g)) {
      const name = ['vm', 'snapshot', 'image'].includes(first) ? `${first} ${second ?? 'ls'}` : first
      assert.ok(known.has(name), `${file}: vmhostctl ${name}`)
    }
  }
})
