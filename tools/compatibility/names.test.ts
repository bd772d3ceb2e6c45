import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareNames, namesOfToday } from './names.ts'
import type { Names } from './names.ts'

const today = namesOfToday()

/** Returns the names of today without one, or with others in its place. */
function without(subject: string, name: string, ...instead: readonly string[]): Names {
  const names = today[subject] ?? []
  assert.ok(names.includes(name), `there is no ${subject} ${name}`)
  return { ...today, [subject]: [...names.filter((each) => each !== name), ...instead] }
}

const breaks: readonly (readonly [
  what: string,
  subject: string,
  name: string,
  ...instead: readonly string[],
])[] = [
  ['a code', 'error code', 'not_found (404)'],
  ['the status of a code', 'error code', 'not_found (404)', 'not_found (410)'],
  [
    'whether to try again',
    'error code',
    'console_viewers_full (429, retryable)',
    'console_viewers_full (429)',
  ],
  ['a fault', 'error code', 'capacity_unknown (503, retryable)', 'capacity_unknown (503)'],
  ['an event', 'event', 'admission_refused'],
  ['a metric', 'metric', 'vmhostd_build_info{version} (gauge)'],
  ['a label more', 'metric', 'vmhostd_ready{} (gauge)', 'vmhostd_ready{vm} (gauge)'],
  ['another kind', 'metric', 'vmhostd_ready{} (gauge)', 'vmhostd_ready{} (counter)'],
  ['a command', 'command', 'vmhostctl sync'],
  ['an operand more', 'command', 'vmhostctl vm get VALUE', 'vmhostctl vm get VALUE VALUE'],
  ['repeated operands', 'command', 'vmhostctl vm stop VALUE…'],
  ['a value of an operand', 'command', 'vmhostctl completion zsh'],
  ['a switch', 'command', 'vmhostctl vm stop --wait'],
  ['a switch that takes a value', 'command', 'vmhostctl vm stop --wait', 'vmhostctl vm stop --wait VALUE'],
  ['any value', 'command', 'vmhostctl vm stop --grace VALUE', 'vmhostctl vm stop --grace 1m'],
  ['a value of an option', 'command', 'vmhostctl vm create --power paused'],
  ['an option that is repeated', 'command', 'vmhostctl vm ls --label VALUE…'],
  ['an option of all commands', 'command', 'vmhostctl --json'],
  ['a command of the host', 'command of the host', 'vmhostd doctor'],
  ['a call without the operand', 'command of the host', 'vmhostd recover'],
  ['an option of the host', 'command of the host', 'vmhostd setup --host-id VALUE'],
  [
    'an exit status of the host',
    'command of the host',
    'vmhostd doctor ends with 1',
    'vmhostd doctor ends with 3',
  ],
  ['a member of a finding', 'member of a finding', 'remedy'],
  ['an exit status', 'exit status', 'vmhostctl 3 (timedOut)', 'vmhostctl 3 (failed)'],
]

test('a name that is gone or says something else breaks the promise', () => {
  for (const [what, subject, name, ...instead] of breaks) {
    const findings = compareNames({ published: today, today: without(subject, name, ...instead) })
    assert.deepEqual(findings, [`the ${subject} ${name} is gone`], what)
  }
})

test('a closed list of values may be opened', () => {
  const closed = without('command', 'vmhostctl vm stop --grace VALUE', 'vmhostctl vm stop --grace 1m')
  assert.deepEqual(compareNames({ published: closed, today }), [])
  const closedList = without('command', 'vmhostctl vm ls --label VALUE…', 'vmhostctl vm ls --label a=b…')
  assert.deepEqual(compareNames({ published: closedList, today }), [])
})
