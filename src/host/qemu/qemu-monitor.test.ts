import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { EMULATED, processorOf } from '../../core/monitor/processor.ts'
import { silentLog } from '../../log/log.ts'
import { QemuMonitor } from './qemu-monitor.ts'

test("a guest has the host's processor with KVM, and one of its own with emulation", async () => {
  const of = (accelerator: 'kvm' | 'tcg') =>
    new QemuMonitor({ program: '/usr/bin/qemu-system-x86_64', accelerator, log: silentLog }).processor()
  const own = processorOf(readFileSync('/proc/cpuinfo', 'utf8'))
  assert.ok(own.vendor !== 'unknown' && own.features.length > 3)
  assert.deepEqual(await of('kvm'), own)
  assert.deepEqual(await of('tcg'), EMULATED)
})
