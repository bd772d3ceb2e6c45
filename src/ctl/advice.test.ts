import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiProblem } from '../client/api-problem.ts'
import { ConnectionFailed } from '../client/connection-failed.ts'
import { faults, rejections } from '../core/problems/catalogue.ts'
import { explain, withOptions } from './advice.ts'
import type { Kind } from './command.ts'

const adviceFor = (code: string, kind: Kind): readonly string[] => {
  const detail = 'it says accept_host_key=SHA256:uNiVztksCsDhcc0u9e8BrSJ5%2FHQWNwW1Vp5oRDHbFcE'
  const problem = { type: '/x', title: 'x', status: 409, detail, code, retryable: false, request_id: 'r' }
  const { advice } = explain(new ApiProblem(problem), { profile: undefined, kind, name: 'web-1', nowMs: 0 })
  // The last line leads to the page.
  return advice.slice(0, -1)
}

test('every placeholder of the advice in the catalogue is filled in', () => {
  for (const code of Object.keys({ ...rejections, ...faults })) {
    for (const kind of ['vm', 'snapshot', 'image'] as const)
      assert.doesNotMatch(adviceFor(code, kind).join(' '), /\{(?!id\})/, code)
  }
  assert.deepEqual(adviceFor('conflict', 'snapshot'), ['vmhostctl snapshot get web-1 shows what is there'])
  assert.match(adviceFor('ssh_host_key_changed', 'vm').at(-1) ?? '', /SHA256:uNiVztksCsDhcc0u9e8BrSJ5\/HQWN/)
})

test('advice may be about one kind of resource', () => {
  assert.equal(adviceFor('vm_deleting', 'vm').length, 1)
  assert.deepEqual(adviceFor('vm_deleting', 'snapshot'), [])
})

test('a fault without advice of its own comes with its remedy', () => {
  assert.deepEqual(adviceFor('tool_missing', 'vm'), [faults.tool_missing.remedy])
  assert.deepEqual(adviceFor('unit_start_failed', 'vm'), [
    'See systemctl status vmhost-<id> and its journal. If the cause is ENOSPC, make room in /run.',
  ])
})

test('a VM that comes is only deleted as one of a lost source if the daemon says that it may be', () => {
  const advice = adviceFor('vm_arriving', 'vm').join('\n')
  assert.match(advice, /does not come: vmhostctl vm rm web-1$/m)
  assert.doesNotMatch(advice, /source-lost/)
  assert.equal(
    withOptions('delete the VM here with source_lost=true', undefined),
    'delete the VM here with source_lost=true (vmhostctl vm rm --source-lost)',
  )
})

test('a source that cannot be reached may refuse the certificate of this host', () => {
  const [advice = ''] = adviceFor('source_unreachable', 'vm')
  assert.match(advice, /node certificate of this host, .*vmhostctl sync here shows/)
})

test('a code that this client does not know has no advice', () => {
  assert.deepEqual(adviceFor('of_a_newer_daemon', 'vm'), [])
})

test('an expired certificate of the daemon comes with the command that renews it', () => {
  const error = new ConnectionFailed('expired', 'the certificate of host-1:9000 has expired')
  const { advice } = explain(error, { profile: undefined, kind: 'vm', name: 'web-1', nowMs: 0 })
  assert.match(
    advice.join('\n'),
    /put ca\.key beside ca\.crt there, and run vmhostd certificate renew, which says if its authority/,
  )
})
