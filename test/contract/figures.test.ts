import { FakeFigures } from '../fakes/fake-figures.ts'
import { figuresContract } from './figures.contract.ts'

figuresContract('fake figures', () => {
  const figures = new FakeFigures()
  return {
    figures,
    poolId: figures.poolId,
    setInSight: (inSight) => figures.setInSight(inSight),
    addAddress: (address) => void figures.hostAddresses.add(address),
    removeAddress: (address) => void figures.hostAddresses.delete(address),
  }
})
