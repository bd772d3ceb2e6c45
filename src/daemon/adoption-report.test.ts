import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLog } from '../log/log.ts'
import { reportAdoption } from './adoption-report.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { Log } from '../log/log.ts'
import type { Adoption } from './adoption-report.ts'

type Line = { level: string; fields: object; message: string }

function report(changes: Partial<Adoption>): Line[] {
  const lines: Line[] = []
  const at =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push({ level, fields, message })
  const log: Log = { ...silentLog, info: at('info'), warn: at('warn'), error: at('error') }
  const census = { runningUnits: 2, protected: 2, unprotected: [] }
  reportAdoption({ adopted: 2, check: { available: true }, census, ...changes }, log)
  return lines
}

test('a start that took over everything is one line', () => {
  assert.deepEqual(report({}), [
    {
      level: 'info',
      fields: { descriptor_store_available: true, adopted_console_count: 2, running_unit_count: 2 },
      message: 'consoles adopted',
    },
  ])
})

test('running VMs whose console is not stored are named, with what to do', () => {
  const unprotected = ['old-1', 'old-2'] as VmId[]
  const [, line] = report({ census: { runningUnits: 4, protected: 2, unprotected } })
  assert.equal(line?.level, 'warn')
  assert.deepEqual(line.fields, {
    vm_ids: ['old-1', 'old-2'],
    mend: 'stop each of them and start it again, through the API',
  })
})

test('a store that keeps nothing is an error, with what to do', () => {
  const check = { available: false, because: 'it is off', mend: 'switch it on' } as const
  const [line] = report({ check })
  assert.equal(line?.level, 'error')
  assert.deepEqual(line.fields, {
    descriptor_store_available: false,
    adopted_console_count: 2,
    running_unit_count: 2,
    because: 'it is off',
    mend: 'switch it on',
  })
})
