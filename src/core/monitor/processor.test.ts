import assert from 'node:assert/strict'
import { test } from 'node:test'
import { processorOf } from './processor.ts'

test('the processor of x86 and of arm64 is read, that of the first core', () => {
  const x86 = (flags: string): string =>
    `processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: ${flags}\nbugs\t\t: spectre_v1\n\n`
  assert.deepEqual(processorOf(x86('fpu vme avx2') + x86('fpu')), {
    vendor: 'AuthenticAMD',
    features: ['fpu', 'vme', 'avx2'],
  })
  const arm =
    'processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd \nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n'
  assert.deepEqual(processorOf(arm), { vendor: '0x41', features: ['fp', 'asimd'] })
})

test('a text without a processor is of an unknown one, and a line that only mentions flags is not one', () => {
  const text = 'vmx flags\t: vnmi\nmodel name\t: vendor_id : x\n'
  assert.deepEqual(processorOf(text), { vendor: 'unknown', features: [] })
})
