import { Type } from 'typebox'
import { problemSchema } from './problem.ts'
import { createVmSchema, setPowerSchema } from './requests.ts'
import { vmListSchema, vmSchema } from './vm.ts'
import type { Static } from 'typebox'

/** The schemas that have a name in the OpenAPI document, and so in the clients made from it. */
export const namedSchemas = {
  Vm: vmSchema,
  VmList: vmListSchema,
  CreateVm: createVmSchema,
  SetPower: setPowerSchema,
  Problem: problemSchema,
} as const

type Name = keyof typeof namedSchemas

/** A named schema by reference, so that the document has it once. */
export const ref = <N extends Name>(name: N) =>
  Type.Unsafe<Static<(typeof namedSchemas)[N]>>({ $ref: `${name}#` })
