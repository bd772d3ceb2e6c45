import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SignedUrl } from '../core/outbound/signed-url.ts'
import { createLog } from './logger.ts'
import { addToLogContext, inLogContext, outsideLogContext } from './log.ts'
import type { LogLevel } from './log.ts'

function capture(level: LogLevel = 'debug', priorityPrefix = false) {
  const lines: string[] = []
  const log = createLog({ level, priorityPrefix, write: (line) => lines.push(line) })
  return { log, lines, last: (): Record<string, unknown> => JSON.parse(lines.at(-1) ?? '') }
}

test('a line is one JSON object with level name, ISO time, service and the fields of its logger', () => {
  const { log, lines, last } = capture()
  log.child({ vm_id: 'web-1' }).info({ operation_id: 'op-1' }, 'stored')
  assert.equal(lines.length, 1)
  assert.ok(lines[0]?.endsWith('}\n'))
  const { time, ...rest } = last()
  assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(rest, {
    level: 'info',
    service: 'vmhostd',
    vm_id: 'web-1',
    operation_id: 'op-1',
    message: 'stored',
  })
})

test('a line has the fields of what it follows from, after a wait too, and no fields of later lines', async () => {
  const { log, lines, last } = capture()
  const reported = (): Record<string, unknown> => {
    log.child({ pts: '/dev/pts/3' }).info({ method: 'reflink' }, 'disk made')
    const { vm_id, operation_id, step, pts, method } = last()
    return { vm_id, operation_id, step, pts, method }
  }
  const own = { pts: '/dev/pts/3', method: 'reflink' }
  const nothing = { vm_id: undefined, operation_id: undefined, step: undefined, ...own }
  await inLogContext({ vm_id: 'web-1', operation_id: 'op-1' }, async () => {
    await addToLogContext({ step: 'storage.ensure-disk' }, async () => {
      await new Promise(setImmediate)
      assert.deepEqual(reported(), {
        vm_id: 'web-1',
        operation_id: 'op-1',
        step: 'storage.ensure-disk',
        ...own,
      })
    })
    assert.deepEqual(reported(), { vm_id: 'web-1', operation_id: 'op-1', step: undefined, ...own })
    assert.deepEqual(outsideLogContext(reported), nothing)
    const other = inLogContext({ vm_id: 'web-2' }, reported)
    assert.deepEqual(other, { ...nothing, vm_id: 'web-2' })
  })
  assert.deepEqual(reported(), nothing)
  assert.equal(lines.length, 5)
})

test('a field stands once in a line, and that of the line counts', () => {
  const { log, lines, last } = capture()
  inLogContext({ step: 'pass', vm_id: 'web-1' }, () =>
    log.child({ step: 'logger' }).warn({ step: 'storage.inspect' }, 'failed'),
  )
  assert.equal(last()['step'], 'storage.inspect')
  assert.equal(lines.at(-1)?.match(/"step"/g)?.length, 1)
  inLogContext({ step: 'pass' }, () =>
    addToLogContext({ step: 'storage.ensure-disk' }, () => log.warn({}, 'failed')),
  )
  assert.equal(last()['step'], 'storage.ensure-disk')
})

test('lines below the level are not written', () => {
  const { log, lines } = capture('warn')
  log.info({}, 'quiet')
  log.warn({}, 'loud')
  assert.equal(lines.length, 1)
})

test('an expected error is logged as its chain and code, a bug with its stack', () => {
  const { log, last } = capture()
  const fault = Object.assign(new Error('clone of disk web-1', { cause: new Error('no space left') }), {
    code: 'storage_full',
  })
  log.error({ error: fault }, 'step failed')
  assert.deepEqual(last()['error'], {
    name: 'Error',
    message: 'clone of disk web-1: no space left',
    code: 'storage_full',
  })
  log.error({ error: new TypeError('x is undefined') }, 'bug')
  const shown = last()['error'] as { stack: string[] }
  assert.match(shown.stack[0] ?? '', /^at .*logger\.test\.ts/)
})

test('a secret that reaches the sink inside a message, a field, a cause or a stack does not leave it', () => {
  const { log, lines } = capture()
  const url = 'https://store.example/b/k?X-Amz-Credential=me&X-Amz-Signature=CANARY'
  log.info({ url, deep: { list: [url] } }, `fetching ${url}`)
  log.error({ error: new Error(`GET ${url} failed`, { cause: new Error('token=CANARY') }) }, 'failed')
  log.info(
    { source: new SignedUrl(url), header: 'Bearer CANARYCANARY' },
    'Authorization: Bearer CANARYCANARY',
  )
  log.info({ user_data: 'CANARY', ssh_authorized_keys: ['ssh-ed25519 CANARY'] }, 'created')
  for (const line of lines) assert.ok(!line.includes('CANARY'), line)
  for (const line of lines) JSON.parse(line)
})

test('for the journal a line begins with its syslog priority', () => {
  const { log, lines } = capture('debug', true)
  log.error({}, 'x')
  log.debug({}, 'y')
  assert.match(lines[0] ?? '', /^<3>\{/)
  assert.match(lines[1] ?? '', /^<7>\{/)
})

test('the audit trail is written whatever the level is, with a priority of its own', () => {
  const { log, lines } = capture('error', true)
  log.info({}, 'hidden')
  log.audit({ action: 'createVm', url: 'https://h/?sig=secret' }, 'request audited')
  assert.equal(lines.length, 1)
  assert.match(lines[0] ?? '', /^<5>\{"level":"audit"/)
  assert.doesNotMatch(lines[0] ?? '', /secret/)
})
