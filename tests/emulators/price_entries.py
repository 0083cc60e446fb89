"""Entries of AWS's price services in their own shapes, for the emulators."""


def term(usd: str | None, since: str = "2026-07-01", *, currency: str = "USD", unit: str = "Hrs") -> dict:
    """An on-demand term with one price."""
    dimension = {"unit": unit, "beginRange": "0", "endRange": "Inf", "appliesTo": [], "pricePerUnit": {currency: usd}}
    return {"effectiveDate": f"{since}T00:00:00Z", "termAttributes": {}, "priceDimensions": {"one": dimension}}


def reserved_term(years: int, payment: str, hourly: str, upfront: str, offering_class: str = "standard") -> dict:
    """A reserved term with its upfront payment."""
    attributes = {"LeaseContractLength": f"{years}yr", "PurchaseOption": payment, "OfferingClass": offering_class}
    dimensions = {
        "fee": {"unit": "Quantity", "description": "Upfront Fee", "pricePerUnit": {"USD": upfront}},
        "rate": {"unit": "Hrs", "pricePerUnit": {"USD": hourly}},
    }
    return {"effectiveDate": "2026-07-01T00:00:00Z", "termAttributes": attributes, "priceDimensions": dimensions}


def ec2_product(name: str, region: str, *terms: dict, reserved: tuple[dict, ...] = (), **attributes: str) -> dict:
    """An entry of AmazonEC2: Linux, shared, on demand unless the attributes differ."""
    stated = {
        "instanceType": name,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "usagetype": f"BoxUsage:{name}",
        "operation": "RunInstances",
    }
    kinds = {"OnDemand": terms} | ({"Reserved": reserved} if reserved else {})
    return {
        "serviceCode": "AmazonEC2",
        "product": {"productFamily": "Compute Instance", "sku": "S", "attributes": {**stated, **attributes}},
        "terms": {kind: {f"S.{index}": offer for index, offer in enumerate(listed)} for kind, listed in kinds.items()},
    }


def ml_product(name: str, region: str, component: str, usd: str, usage: str) -> dict:
    """An entry of AmazonSageMaker."""
    attributes = {
        "instanceName": name,
        "instanceType": f"{name}-{component}",
        "regionCode": region,
        "component": component,
        "platoinstancetype": component,
        "usagetype": usage,
    }
    return {
        "serviceCode": "AmazonSageMaker",
        "product": {"productFamily": "ML Instance", "sku": "M", "attributes": attributes},
        "terms": {"OnDemand": {"M.1": term(usd)}},
    }


def spot_entry(name: str, region: str, zone: str, price: str, *, since: str, zone_id: str = "") -> dict:
    """An entry of the spot price history; without an id, the zone has only its name."""
    entry = {
        "region": region,
        "instanceType": name,
        "productDescription": "Linux/UNIX",
        "spotPrice": price,
        "timestamp": since,
        "availabilityZone": zone,
    }
    return entry | ({"availabilityZoneId": zone_id} if zone_id else {})


def block(name: str, region: str, fee: str, *, hours: int = 24, count: int = 1, **fields: object) -> dict:
    """A Capacity Block offering."""
    return {
        "region": region,
        "capacityBlockOfferingId": "cb-1",
        "instanceType": name,
        "availabilityZone": f"{region}a",
        "instanceCount": count,
        "startDate": "2026-11-25T11:30:00.000Z",
        "endDate": "2026-11-26T11:30:00.000Z",
        "capacityBlockDurationHours": hours,
        "upfrontFee": fee,
        "currencyCode": "USD",
        "tenancy": "default",
        **fields,
    }


def plan(name: str, region: str, fee: str, *parts: tuple[int, int], currency: str = "USD") -> dict:
    """A training plan offering whose parts have hours and instances."""
    reserved = [
        {"InstanceType": f"ml.{name}", "InstanceCount": count, "DurationHours": hours, "DurationMinutes": 0}
        for hours, count in parts
    ]
    offering = {
        "TrainingPlanOfferingId": "tp-1",
        "TargetResources": ["hyperpod-cluster"],
        "DurationHours": sum(hours for hours, _ in parts),
        "UpfrontFee": fee,
        "CurrencyCode": currency,
        "ReservedCapacityOfferings": reserved,
    }
    return {"region": region, "type": f"ml.{name}", "offering": offering}


def rate(name: str, region: str, usd: str, *, plan_type: str, years: int, payment: str, **fields: object) -> dict:
    """A Savings Plan rate; `usage` replaces the usage type of a plain Linux instance."""
    ml = name.startswith("ml.")
    usage = fields.pop("usage", f"BoxUsage:{name}")
    offering = {
        "offeringId": "o",
        "paymentOption": payment,
        "planType": plan_type,
        "durationSeconds": years * 31_536_000,
        "currency": "USD",
        "planDescription": "",
    }
    stated = {"region": region, "instanceType": name, "productDescription": "Linux/UNIX", "tenancy": "shared"}
    return {
        "savingsPlanOffering": {**offering, **fields.pop("offering", {})},
        "rate": usd,
        "unit": "Hrs",
        "productType": "SageMaker" if ml else "EC2",
        "serviceCode": "AmazonSageMaker" if ml else "AmazonEC2",
        "usageType": usage,
        "operation": "RunInstances",
        "properties": [] if ml else [{"name": key, "value": value} for key, value in stated.items()],
        **fields,
    }
