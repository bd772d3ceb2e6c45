import assert from 'node:assert/strict'
import { fastify } from 'fastify'
import { test } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { faults, rejections } from '../../core/problems/catalogue.ts'
import { silentLog } from '../../log/log.ts'
import { answerErrors } from './answer-errors.ts'
import { Refused } from './refused.ts'
import type { FaultCode, RejectionCode } from '../../core/errors.ts'

/** Returns the status, `retryable` and `Retry-After` of the answer to an error. */
async function answerTo(error: Error) {
  const app = fastify()
  answerErrors(app, silentLog)
  app.get('/', () => {
    throw error
  })
  const answer = await app.inject('/')
  const { retryable, code } = answer.json()
  return { status: answer.statusCode, code, retryable, retryAfter: answer.headers['retry-after'] }
}

/** Statuses that invite a client to try again (RFC 9110, 15.5.9 and 15.6.4; RFC 6585, 4). */
const INVITING = [408, 429, 503]

/** The only conflict with a state that passes by itself. */
const PASSING: RejectionCode = 'vm_busy'

test('every problem that may pass by itself says after how many seconds to try again, and no other does', async () => {
  for (const code of Object.keys(rejections) as RejectionCode[]) {
    const { status, retryable, retryAfter } = await answerTo(new Refused({ code, detail: 'x' }))
    assert.equal(status, rejections[code].status, code)
    assert.equal(retryable, INVITING.includes(status) || code === PASSING, code)
    assert.equal(/^[1-9]\d?$/.test(retryAfter ?? ''), retryable, code)
  }
  for (const code of Object.keys(faults) as FaultCode[]) {
    const { status, retryable, retryAfter } = await answerTo(new HostFault(code, 'x'))
    assert.equal(status, 503, code)
    assert.equal(retryable, faults[code].retry !== 'on-change', code)
    assert.equal(/^[1-9]\d?$/.test(retryAfter ?? ''), retryable, code)
  }
})

test('a fault of another class than its entry says is answered by its own class', async () => {
  const lasting = new HostFault('storage_inspection_failed', 'x', { retry: 'on-change' })
  assert.deepEqual(await answerTo(lasting).then(({ retryable, retryAfter }) => [retryable, retryAfter]), [
    false,
    undefined,
  ])
  const passing = await answerTo(new HostFault('image_source_refused', 'x', { retry: 'soon' }))
  assert.deepEqual([passing.retryable, passing.retryAfter], [true, '5'])
})
