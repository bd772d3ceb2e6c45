import assert from 'node:assert/strict'
import { closeSync, readSync, writeSync } from 'node:fs'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { execFile } from 'node:child_process'
import { until } from '../../../test/contract/until.ts'
import { ErrnoError } from './errno-error.ts'
import { openPipe } from './descriptor.ts'
import { watchDescriptor } from './watch-descriptor.ts'

const byte = Buffer.from('x')

test('a watch calls back for as long as there is something to read', async (t) => {
  const { readEnd, writeEnd } = openPipe()
  let calls = 0
  const end = watchDescriptor(readEnd, () => {
    calls += 1
    // The first call leaves it unread, so there must be a second call.
    if (calls > 1) readSync(readEnd, Buffer.alloc(1))
  })
  t.after(() => {
    end()
    for (const fd of [readEnd, writeEnd]) closeSync(fd)
  })
  writeSync(writeEnd, byte)
  await until(
    () => calls,
    (count) => count >= 2,
  )
  writeSync(writeEnd, byte)
  await until(
    () => calls,
    (count) => count >= 3,
  )
})

test('promises continue after a callback', async (t) => {
  const { readEnd, writeEnd } = openPipe()
  const { promise, resolve } = Promise.withResolvers<void>()
  const end = watchDescriptor(readEnd, resolve)
  t.after(() => {
    end()
    for (const fd of [readEnd, writeEnd]) closeSync(fd)
  })
  writeSync(writeEnd, byte)
  await promise
})

test('after a watch has ended it calls back no longer, and it may be ended twice', async () => {
  const [one, other] = [openPipe(), openPipe()]
  const calls: string[] = []
  const end = watchDescriptor(one.readEnd, () => calls.push('one'))
  const endOther = watchDescriptor(other.readEnd, () => calls.push('other'))
  writeSync(one.writeEnd, byte)
  end()
  end()
  writeSync(other.writeEnd, byte)
  await until(
    () => calls,
    (seen) => seen.includes('other'),
  )
  endOther()
  assert.equal(calls.includes('one'), false)
  for (const { readEnd, writeEnd } of [one, other]) for (const fd of [readEnd, writeEnd]) closeSync(fd)
})

test('a descriptor that cannot be watched is refused', () => {
  assert.throws(() => watchDescriptor(1_000_000, () => {}), ErrnoError)
})

test('watching does not keep a process alive', async () => {
  const script = `import { openPipe } from '${import.meta.dirname}/descriptor.ts'
  import { watchDescriptor } from '${import.meta.dirname}/watch-descriptor.ts'
  watchDescriptor(openPipe().readEnd, () => {})
  console.log('watching')`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    timeout: 20_000,
  })
  assert.equal(stdout, 'watching\n')
})
