import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readCommandLine } from './command-line.ts'
import { commands } from './commands.ts'
import { CtlError } from './ctl-error.ts'
import type { Called } from './command-line.ts'

/** Reads a command line; help is written to `written`. */
function read(line: string, written: string[] = []): Called | undefined {
  const stdout = { write: (text: string) => void written.push(text), isTty: true, columns: 60 }
  return readCommandLine(line.split(' '), commands, stdout)
}

test('options may stand before, between and behind operands, and those of every command before its words', () => {
  const lines = [
    '--json --profile a.toml vm wait --timeout 2m web-1 web-2',
    'vm wait web-1 --json --timeout=2m web-2 --profile=a.toml',
    'vm wait --profile a.toml --timeout 2m --json -- web-1 web-2',
  ]
  for (const line of lines) {
    const { command, given } = read(line) ?? assert.fail(line)
    assert.deepEqual(command.words, ['vm', 'wait'])
    assert.deepEqual(given.operands, ['web-1', 'web-2'])
    assert.deepEqual(
      [given.text('timeout'), given.text('profile'), given.isSet('json')],
      ['2m', 'a.toml', true],
    )
    assert.ok(!given.isSet('fail-on-error'))
  }
})

test('an option that may be repeated takes one value each time', () => {
  const { given } = read('vm create --label a=1 web-1 --label b=2') ?? assert.fail()
  assert.deepEqual(given.texts('label'), ['a=1', 'b=2'])
  assert.equal(given.operand, 'web-1')
  assert.deepEqual(read('vm create web-1')?.given.texts('label'), [])
})

test('a value may begin with a dash', () => {
  assert.equal(read('vm create web-1 --kernel-arguments -x')?.given.text('kernel-arguments'), '-x')
})

test('help fits the terminal, and no command is called', () => {
  for (const line of [
    '--help',
    'vm',
    'help vm stop',
    'help --profile a vm stop b',
    'vm help stop',
    'vm stop web-1 --help',
  ]) {
    const written: string[] = []
    assert.equal(read(line, written), undefined)
    const [text = ''] = written.join('').split(/\n(?:Examples|A first VM)/, 1)
    assert.match(text, /^Usage: vmhostctl /)
    // A narrower column is not wrapped.
    for (const part of text.split('\n')) assert.ok(part.length <= 115, part)
    assert.match(text, /this text/)
  }
})

test('a wrong command line is a usage error that says what was meant', () => {
  const cases = [
    ['vm stop ', /an argument is empty; see vmhostctl vm stop --help/],
    ['vm stop web-1 ..', /\.\. is neither a name nor a file; see vmhostctl vm stop --help/],
    ['vm get .', /\. is neither a name/],
    ['help vm stpo', /unknown command 'stpo'; did you mean vmhostctl vm stop\?/],
    ['vm help stpo', /unknown command 'stpo'; did you mean vmhostctl vm stop\?/],
    ['help vm stpo --json', /unknown command 'stpo'/],
    ['help --profile a vm stpo', /unknown command 'stpo'/],
    ['help nope web-1', /unknown command 'nope'/],
    ['vm --jsn', /unknown option '--jsn'; did you mean --json\?; see vmhostctl vm --help/],
    ['vm create web-1 --ipv', /unknown option '--ipv'; did you mean one of --ipv4, --ipv6\?/],
    ['snapshot delete x', /unknown command 'delete'; did you mean vmhostctl snapshot rm\?/],
  ] as const
  for (const [line, says] of cases) {
    assert.throws(
      () => read(line),
      (error: unknown) => {
        assert.ok(error instanceof CtlError)
        assert.equal(error.status, 2)
        assert.match([error.message, ...error.advice].join('; '), says)
        return true
      },
    )
  }
})
