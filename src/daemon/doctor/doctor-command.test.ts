import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configOf, findingsInWords } from './doctor-command.ts'

test('the table has a line for each finding, its remedy below, and a sum', () => {
  const text = findingsInWords([
    { check: 'kernel', level: 'ok', found: 'Linux 6.12' },
    { check: 'KVM', level: 'should', found: 'KVM does not open', remedy: 'enable it' },
    { check: 'pool', level: 'must', found: 'not mounted', remedy: 'mount it' },
  ])
  assert.equal(
    text,
    [
      'ok      kernel  Linux 6.12',
      'should  KVM     KVM does not open',
      '                → enable it',
      'MUST    pool    not mounted',
      '                → mount it',
      '',
      '1 must be done, 1 should be done.',
    ].join('\n'),
  )
})

test('a host on which nothing is to be done', () => {
  assert.match(
    findingsInWords([{ check: 'kernel', level: 'ok', found: 'Linux 6.12' }]),
    /Nothing needs to be done\.$/,
  )
})

test('a host is checked before its set-up, whatever its name is', () => {
  for (const name of ['host-1', 'my_host', 'vmhost-controller']) {
    const [{ stateDirectory }, configuration] = configOf('/nonexistent/config.toml', name)
    assert.equal(stateDirectory, '/var/lib/vmhostd')
    assert.match(configuration.known ? '' : configuration.because, /"vmhostd setup" writes one/)
  }
})
