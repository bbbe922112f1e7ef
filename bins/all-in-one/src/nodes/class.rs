//! What classes of partner nodes are called: `partner:` and both segments of the model's id. Some have a name of ComfyUI's own
//! besides.

use router_core::ModelId;

use super::alias;

const PREFIX: &str = "partner:";

/// The class of a model's nodes. It stays the same for as long as the id does; no other class has a colon.
pub(super) fn class_of(model: &ModelId) -> String {
    format!("{PREFIX}{}:{}", model.provider(), model.model())
}

/// The model whose nodes are of this class, listed now or not.
pub(crate) fn model_of(class: &str) -> Option<ModelId> {
    if let Some(alias) = alias::named(class) {
        return alias.model();
    }
    let (provider, model) = class.strip_prefix(PREFIX)?.split_once(':')?;
    ModelId::new(provider, model).ok()
}

/// Whether a class is that of some model, listed now or not.
pub(crate) fn is_partner_class(class: &str) -> bool {
    class.starts_with(PREFIX) || alias::named(class).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_a_class_of_its_own() {
        let id = |provider, model| ModelId::new(provider, model).expect("it is one");
        assert_eq!(class_of(&id("bfl", "flux-2-pro")), "partner:bfl:flux-2-pro");
        assert_ne!(class_of(&id("a.b", "c")), class_of(&id("a", "b.c")));
        assert!(is_partner_class(&class_of(&id("a", "b"))));
        assert!(!is_partner_class("LoadImage"));
        assert_eq!(
            model_of("partner:bfl:flux-2-pro"),
            Some(id("bfl", "flux-2-pro"))
        );
        assert!(is_partner_class("FluxProUltraImageNode"));
        assert_eq!(
            model_of("FluxProUltraImageNode"),
            Some(id("bfl", "flux-pro-1.1-ultra"))
        );
        for class in ["LoadImage", "partner:", "partner:bfl", "partner:b/l:x"] {
            assert_eq!(model_of(class), None, "{class}");
        }
    }
}
