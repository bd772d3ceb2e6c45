import { Type } from 'typebox'
import { existingVm } from '../../../commands/vm/store-desired.ts'
import { closed } from '../../../lib/schema-check.ts'
import { ref } from '../../wire/named.ts'
import { vmIdSchema } from '../../wire/vm.ts'
import { onceOpen, Refused } from '../../listener/refused.ts'
import { locationHeader, requestIdHeader } from '../../listener/answers.ts'
import type { CommandContext } from '../../../commands/context.ts'
import type { VmId } from '../../../core/ids.ts'
import type { VmRecord } from '../../../core/vm/record.ts'
import type { ApiDependencies } from '../dependencies.ts'

export const tags = ['VMs']
export const params = Type.Object({ id: vmIdSchema }, closed)

const headers = {
  ...requestIdHeader,
  ETag: { type: 'string', description: 'The revision of the VM, in quotes.' },
}

export const vmAnswer = (description: string) => ({ ...ref('Vm'), description, headers })

/** The answer to a mutation that was stored. */
export const acceptedVm = (description: string) => ({
  ...vmAnswer(description),
  headers: { ...headers, ...locationHeader },
})

/** Returns the context of commands and reads. Refuses before the store is open. */
export const contextOf = (dependencies: ApiDependencies): CommandContext => onceOpen(dependencies.context())

/** Returns the VM. Refuses if there is none. */
export function vmOf(context: CommandContext, id: VmId): VmRecord {
  const found = existingVm(context.store, id)
  if (!found.ok) throw new Refused(found.error)
  return found.value
}
